//! Agents of different types in one team, and their prompts.

use std::path::Path;

use harness::{
    Agent, BoxAgent, Cx, Event, Execution, Harness, Named, Result, agent::Prompt, boxed, named,
};

struct Upper;

impl Agent for Upper {
    type Input = String;
    type Output = String;

    fn kind(&self) -> Option<&str> {
        Some("upper")
    }

    fn has_tools(&self) -> bool {
        true
    }

    async fn execute(&self, input: String, execution: &mut Execution) -> Result<String> {
        execution.hub().emit(Event::custom("inside", serde_json::Value::Null));
        tokio::task::yield_now().await;
        Ok(input.to_uppercase())
    }
}

/// An agent that shares only input and output types with [`Upper`].
struct Counted(usize);

impl Agent for Counted {
    type Input = String;
    type Output = String;

    async fn execute(&self, input: String, _: &mut Execution) -> Result<String> {
        if input.len() > self.0 { Err("too long".into()) } else { Ok(format!("{}", input.len())) }
    }
}

type Team = Vec<Named<BoxAgent<String, String>>>;

#[tokio::test]
async fn agents_of_different_types_stand_in_one_team() {
    let team: Team = vec![named("upper", boxed(Upper)), named("counted", boxed(Counted(4)))];
    assert_eq!(team.iter().map(Named::has_tools).collect::<Vec<_>>(), [true, false]);
    let flow = Harness::define("mixed").agents(team).state(String::clone).run(
        async |cx: &mut Cx<'_, String, Team>| {
            let word = cx.state.clone();
            let upper = cx.execute(|team| &team[0], word.clone()).await?;
            let counted = cx.execute(|team| &team[1], word).await?;
            Ok((upper, counted))
        },
    );
    let done = flow.create("word".to_owned()).run().await.unwrap();
    assert_eq!(done.result, ("WORD".to_owned(), "4".to_owned()));
    let failed = flow.create("words".to_owned()).run().await.err().unwrap();
    assert_eq!(failed.to_string(), "agent counted: too long");
}

#[tokio::test]
async fn a_boxed_agent_keeps_its_kind_and_its_clones_are_the_same() {
    let agent = boxed(Upper);
    assert_eq!((agent.kind(), agent.has_tools()), (Some("upper"), true));
    assert_eq!(agent.clone().kind(), Some("upper"));
    assert_eq!(boxed(agent).kind(), Some("upper"), "boxed twice");
}

#[test]
fn the_files_of_a_prompt_are_in_its_tree_until_they_are_put_elsewhere() {
    let prompt = Prompt::new("go");
    assert_eq!(prompt.work_tree, Path::new("."));
    assert_eq!(prompt.in_tree("/a").in_tree("/b").folder, Path::new("/b/.harness"));
    let moved = Prompt::new("go").folder("/state").in_tree("/a");
    assert_eq!(
        (moved.folder.as_path(), moved.work_tree.as_path()),
        ("/state".as_ref(), "/a".as_ref())
    );
}

#[test]
fn no_two_prompts_have_one_name() {
    assert_ne!(Prompt::new("go").name, Prompt::new("go").name);
}
