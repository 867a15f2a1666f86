//! Questions, answers, messages, aborts.

use std::{sync::Arc, sync::Mutex, time::Duration};

use harness::{
    Ask, Cx, Envelope, Error, Event, Harness, Hub, HubStatus, Result, UserReply,
    event::{Moment, PromptId},
    hub::Answered,
};

/// Runs a flow in a session on `hub`.
async fn in_session<R>(
    hub: &Hub,
    flow: impl AsyncFn(&mut Cx<'_, (), ()>) -> Result<R>,
) -> Result<(R, HubStatus)> {
    let definition = Harness::define("talk").state(|(): &()| ()).run(flow);
    let done = definition.create_in(hub.clone(), ()).start_session().run().await?;
    Ok((done.result, done.status))
}

/// Answers the first question with each of these in turn, and collects the results.
fn answer_with(hub: &Hub, replies: Vec<UserReply>) -> Arc<Mutex<Vec<Answered>>> {
    let became = Arc::new(Mutex::new(Vec::new()));
    let (speaker, into) = (hub.clone(), Arc::clone(&became));
    hub.subscribe("session:prompt", move |e: &Envelope| {
        let Event::SessionPrompt { prompt_id, .. } = &e.event else { return };
        for reply in &replies {
            into.lock().unwrap().push(speaker.reply(*prompt_id, reply.clone()));
        }
    })
    .forever();
    became
}

#[tokio::test]
async fn the_first_fitting_answer_counts() {
    let hub = Hub::new("s");
    let yes = UserReply::choice("yes");
    let replies = vec![
        UserReply::text("maybe"),
        UserReply::choice("perhaps"),
        yes.clone(),
        UserReply::choice("no"),
    ];
    let became = answer_with(&hub, replies);
    let ask = async |cx: &mut Cx<'_, (), ()>| {
        let session = cx.session().ok_or(Error::NoSession)?;
        session.wait_for_user("Go on?", Ask::choices(["yes", "no"])).await
    };
    let (reply, status) = in_session(&hub, ask).await.unwrap();
    assert_eq!(reply, yes);
    assert_eq!(status, HubStatus::Complete);
    let unfit = Answered::Unfit { why: "choose one of: yes, no".into() };
    let expected = [unfit.clone(), unfit, Answered::Accepted, Answered::Unknown];
    assert_eq!(*became.lock().unwrap(), expected);
    assert_eq!(hub.reply(PromptId(0), UserReply::text("late")), Answered::Unknown);
    assert_eq!(hub.reply(PromptId(7), UserReply::text("nobody asked")), Answered::Unknown);
}

#[tokio::test]
async fn an_answer_can_be_checked_and_text_allowed_beside_choices() {
    let hub = Hub::new("s");
    answer_with(&hub, vec![UserReply::text("x"), UserReply::text("42")]);
    let ask = async |cx: &mut Cx<'_, (), ()>| {
        let number =
            |r: &UserReply| r.content.parse::<u32>().map(|_| ()).map_err(|e| e.to_string());
        let ask = Ask::choices(["none"]).or_text().checked(number);
        let session = cx.session().ok_or(Error::NoSession)?;
        Ok(session.wait_for_user("How many?", ask).await?.content)
    };
    assert_eq!(in_session(&hub, ask).await.unwrap().0, "42");
}

#[tokio::test]
async fn an_answer_says_when_it_was_given() {
    let hub = Hub::new("s");
    let before = Moment::now();
    let given = UserReply::choice("yes");
    assert!((before..=Moment::now()).contains(&given.timestamp));
    answer_with(&hub, vec![given.clone()]);
    let ask = async |cx: &mut Cx<'_, (), ()>| {
        let session = cx.session().ok_or(Error::NoSession)?;
        session.wait_for_user("Ready?", Ask::choices(["yes", "no"])).await
    };
    assert_eq!(in_session(&hub, ask).await.unwrap().0, given);
}

#[tokio::test(start_paused = true)]
async fn a_question_gives_up_and_is_taken_back() {
    let hub = Hub::new("s");
    let ask = async |cx: &mut Cx<'_, (), ()>| {
        let session = cx.session().ok_or(Error::NoSession)?;
        let ask = Ask::text().within(Duration::from_secs(60));
        session.wait_for_user("Anybody?", ask).await
    };
    let error = in_session(&hub, ask).await.unwrap_err();
    assert_eq!(error.to_string(), "nobody answered within 60 s");
    assert!(hub.questions().is_empty());
    assert_eq!(hub.status(), HubStatus::Idle, "a failed run returns to idle");
}

#[tokio::test]
async fn an_abort_rejects_every_waiter_and_is_never_overwritten() {
    let hub = Hub::new("s");
    let aborts = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&aborts);
    hub.subscribe("session:abort", move |_: &Envelope| *counted.lock().unwrap() += 1).forever();
    let speaker = hub.clone();
    hub.subscribe("session:prompt", move |e: &Envelope| {
        if let Event::SessionPrompt { prompt_id: PromptId(1), .. } = &e.event {
            speaker.abort(Some("enough"));
            speaker.abort(Some("twice"));
        }
    })
    .forever();
    let ask = async |cx: &mut Cx<'_, (), ()>| {
        let session = cx.session().ok_or(Error::NoSession)?;
        let (one, two) = tokio::join!(
            session.wait_for_user("one?", Ask::text()),
            session.wait_for_user("two?", Ask::text()),
        );
        assert!(session.is_aborted());
        let after = session.wait_for_user("after?", Ask::text()).await;
        Ok([one, two, after].map(|r| r.unwrap_err().to_string()))
    };
    let (errors, status) = in_session(&hub, ask).await.unwrap();
    assert_eq!(errors, ["Session aborted", "Session aborted", "Session aborted"]);
    assert_eq!(status, HubStatus::Aborted, "complete does not overwrite an abort");
    assert_eq!(*aborts.lock().unwrap(), 1);
}

#[tokio::test]
async fn an_abort_after_the_end_or_without_a_session_means_nothing() {
    let hub = Hub::new("s");
    hub.abort(None);
    assert_eq!(hub.status(), HubStatus::Idle);
    in_session(&hub, async |_: &mut Cx<'_, (), ()>| Ok(())).await.unwrap();
    hub.abort(None);
    assert_eq!(hub.status(), HubStatus::Complete);
    let failed = Hub::new("s");
    let fails = async |_: &mut Cx<'_, (), ()>| Err::<(), _>(Error::message("on purpose"));
    in_session(&failed, fails).await.unwrap_err();
    failed.abort(None);
    assert_eq!(failed.status(), HubStatus::Idle);
}

#[tokio::test]
async fn messages_are_kept_until_they_are_read() {
    let hub = Hub::new("s");
    hub.send("before the session: lost");
    hub.start_session();
    hub.send("one");
    hub.send_to("coder", "two");
    let read = async |cx: &mut Cx<'_, (), ()>| {
        let session = cx.session().ok_or(Error::NoSession)?;
        assert!(session.has_messages());
        let messages = session.read_messages();
        assert!(!session.has_messages());
        Ok(messages.into_iter().map(|m| (m.content, m.agent)).collect::<Vec<_>>())
    };
    let (messages, _) = in_session(&hub, read).await.unwrap();
    assert_eq!(messages, [("one".to_owned(), None), ("two".to_owned(), Some("coder".to_owned()))]);
}

#[tokio::test]
async fn without_a_session_there_is_none_in_the_context() {
    let flow = Harness::define("alone")
        .state(|(): &()| ())
        .run(async |cx: &mut Cx<'_, (), ()>| Ok(cx.session().is_none()));
    assert!(flow.create(()).run().await.unwrap().result);
}

#[tokio::test]
async fn an_abort_is_not_tried_again() {
    let flow = async |cx: &mut Cx<'_, (), ()>| {
        cx.retry("asking", harness::RetryPolicy::default(), |_| async {
            Err::<(), _>(Error::Aborted)
        })
        .await
    };
    let error = in_session(&Hub::new("s"), flow).await.unwrap_err();
    assert!(matches!(error, Error::Aborted), "{error}");
}
