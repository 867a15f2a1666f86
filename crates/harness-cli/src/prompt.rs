//! Questions to the person at the terminal. They go to standard error, because standard output is
//! data.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::{failure::Result, paint::visible};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Yes,
    No,
}

/// Whether there is a person to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    Person,
    Nobody,
}

impl Audience {
    pub(crate) fn of_this_process() -> Self {
        if io::stdin().is_terminal() && io::stderr().is_terminal() {
            Self::Person
        } else {
            Self::Nobody
        }
    }
}

/// Asks `question [y/N]`. Anything but a clear yes is a no, including the end of input.
pub(crate) fn confirm(question: &str) -> Result<Answer> {
    confirm_or(question, Answer::No)
}

/// Asks a question for which an empty line means `usual`. The question shows that as `[Y/n]` or
/// `[y/N]`.
pub(crate) fn confirm_or(question: &str, usual: Answer) -> Result<Answer> {
    let choices = match usual {
        Answer::Yes => "[Y/n]",
        Answer::No => "[y/N]",
    };
    write!(io::stderr(), "{} {choices} ", visible(question))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(answer(&line, usual))
}

/// Asks for a line of text. The end of input counts as an empty line.
pub(crate) fn ask(question: &str) -> Result<String> {
    write!(io::stderr(), "{} ", visible(question))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn answer(line: &str, usual: Answer) -> Answer {
    match line.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        // This is an empty line that was typed. The end of input has no line at all, and must not
        // count as a yes.
        "" if !line.is_empty() => usual,
        _ => Answer::No,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_a_yes() {
        for yes in ["y\n", "YES", " yes \n"] {
            assert_eq!(answer(yes, Answer::No), Answer::Yes, "{yes:?}");
        }
        for no in ["", "\n", "n\n", "yep\n"] {
            assert_eq!(answer(no, Answer::No), Answer::No, "{no:?}");
        }
        assert_eq!(answer("\n", Answer::Yes), Answer::Yes);
        assert_eq!(answer("n\n", Answer::Yes), Answer::No);
        assert_eq!(answer("", Answer::Yes), Answer::No);
    }
}
