//! Questions to the person at the keyboard: a line to type, or a yes.

use harness::protocol::{BudgetRequest, QuestionReply, Request, SentMessage};

use super::state::Wish;

/// A question to the person.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dialog {
    pub(super) purpose: Purpose,
    pub(super) typed: String,
}

/// What the answer is for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    /// The answer to a question of an agent, or an approval.
    Answer { prompt_id: String, question: String, choices: Vec<String>, allow_text: bool },
    /// A message to the run.
    Send,
    /// A new limit of a budget.
    Budget { now: String },
    /// The name of a branch for a rescue.
    Restore { rescue: String },
    /// The confirmation of an abort.
    Abort,
}

impl Dialog {
    pub(super) fn new(purpose: Purpose) -> Self {
        let typed = match &purpose {
            Purpose::Restore { rescue } => format!("rescue/{}", rescue.replace('/', "-")),
            _ => String::new(),
        };
        Self { purpose, typed }
    }

    /// Returns the heading, and lines of explanation.
    pub(super) fn words(&self) -> (&'static str, Vec<String>) {
        match &self.purpose {
            Purpose::Answer { question, choices, allow_text, .. } => {
                let mut lines = vec![question.clone()];
                let numbered = choices.iter().enumerate();
                lines.extend(numbered.map(|(n, choice)| format!("{}  {choice}", n + 1)));
                if !choices.is_empty() {
                    lines.push(match allow_text {
                        true => "Type a number, or an answer of your own.".to_owned(),
                        false => "Type a number.".to_owned(),
                    });
                }
                ("Answer", lines)
            }
            Purpose::Send => ("Send a message to every agent of the run", Vec::new()),
            Purpose::Budget { now } => (
                "Change the budget of the run",
                vec![
                    now.clone(),
                    "20 for dollars, 500000t for tokens, 8h or 90m for time".to_owned(),
                ],
            ),
            Purpose::Restore { rescue } => {
                ("Make a branch that holds the saved work", vec![format!("The work is {rescue}.")])
            }
            Purpose::Abort => (
                "Stop the run?",
                vec![
                    "Its agents are stopped. `harness run --resume` continues it.".to_owned(),
                    "Type y to stop it; any other key keeps it.".to_owned(),
                ],
            ),
        }
    }

    /// Returns what the typed answer asks for, or why it does not fit.
    pub(super) fn done(&self) -> Result<Wish, String> {
        let typed = self.typed.trim();
        match &self.purpose {
            Purpose::Abort => Ok(Wish::Ask(
                Box::new(Request::Abort { reason: None }),
                "the run is stopping".to_owned(),
            )),
            _ if typed.is_empty() => Err("nothing was typed".to_owned()),
            Purpose::Answer { prompt_id, choices, .. } => {
                let number = typed.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
                let choice = number.and_then(|n| choices.get(n)).cloned();
                let choice = choice.or_else(|| choices.iter().find(|c| *c == typed).cloned());
                let content = choice.clone().unwrap_or_else(|| typed.to_owned());
                let reply = QuestionReply { prompt_id: prompt_id.clone(), content, choice };
                Ok(Wish::Ask(Box::new(Request::Reply(reply)), "answered".to_owned()))
            }
            Purpose::Send => {
                let content = typed.to_owned();
                let message = SentMessage { content, agent: None, run_id: None };
                Ok(Wish::Ask(Box::new(Request::Send(message)), "sent".to_owned()))
            }
            Purpose::Budget { .. } => {
                let request = budget(typed)?;
                Ok(Wish::Ask(Box::new(Request::Budget(request)), "the new budget holds".to_owned()))
            }
            Purpose::Restore { rescue } => {
                Ok(Wish::Restore { rescue: rescue.clone(), branch: typed.to_owned() })
            }
        }
    }
}

/// Reads a limit: an amount of dollars, tokens with a `t`, or a time with its unit.
fn budget(typed: &str) -> Result<BudgetRequest, String> {
    let wrong = || format!("{typed:?} is no limit: type 20, 500000t or 8h");
    let nothing = BudgetRequest::default();
    let text = typed.trim_start_matches('$');
    if let Ok(amount) = text.parse::<f64>() {
        let amount = Some(amount).filter(|amount| amount.is_finite() && *amount > 0.0);
        return Ok(BudgetRequest { max_cost: Some(amount.ok_or_else(wrong)?), ..nothing });
    }
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number = &text[..text.len() - unit.len_utf8()];
    let number: u64 = number.trim().parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?;
    let seconds = |each: u64| Some(number.saturating_mul(each));
    Ok(match unit {
        't' => BudgetRequest { max_tokens: Some(number), ..nothing },
        's' => BudgetRequest { max_duration: seconds(1), ..nothing },
        'm' => BudgetRequest { max_duration: seconds(60), ..nothing },
        'h' => BudgetRequest { max_duration: seconds(3600), ..nothing },
        _ => return Err(wrong()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_money_tokens_or_time() {
        let nothing = BudgetRequest::default();
        for (typed, expected) in [
            ("20", BudgetRequest { max_cost: Some(20.0), ..nothing.clone() }),
            ("$2.50", BudgetRequest { max_cost: Some(2.5), ..nothing.clone() }),
            ("500t", BudgetRequest { max_tokens: Some(500), ..nothing.clone() }),
            ("90m", BudgetRequest { max_duration: Some(5400), ..nothing.clone() }),
        ] {
            assert_eq!(budget(typed), Ok(expected), "{typed}");
        }
        for wrong in ["", "x", "-1", "0", "12x", "0h", "nan"] {
            assert!(budget(wrong).is_err(), "{wrong}");
        }
    }
}
