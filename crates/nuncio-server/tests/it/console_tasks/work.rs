//! Tasks on the console: taking, filling in the form, returning and refusing.

use std::time::Duration;

use nuncio_core::audit::AuditEvent;
use nuncio_core::ids::PersonName;
use nuncio_core::principal::Principal;
use nuncio_core::task::TaskState;
use nuncio_engine::access::NewApiKeyRequest;
use nuncio_engine::ports::Clock as _;
use nuncio_testkit::{Gateway, ManualClock};
use serde_json::json;

use super::{InboxBrowser, ask, place, start, state};
use crate::agents::{messages, result_of};

fn by(state: &TaskState) -> &str {
    match state {
        TaskState::Taken { by, .. } | TaskState::Done { by, .. } | TaskState::Refused { by, .. } => by,
        TaskState::Open | TaskState::Withdrawn { .. } => "",
    }
}

async fn person<'a>(gateway: &'a Gateway, name: &str) -> InboxBrowser<'a> {
    let person = Some(PersonName::parse(name).unwrap());
    let new = NewApiKeyRequest {
        name: None,
        person,
        scopes: nuncio_core::grant::KeyScopes::All,
        role: nuncio_engine::ports::store::KeyRole::App,
        term: None,
    };
    let (_, secret) = gateway.engine().access().create_key(new).await.unwrap();
    InboxBrowser::signed_in(gateway, &secret).await
}

#[tokio::test]
async fn task_form_is_validated_and_its_result_resumes_the_turn() {
    let gateway = start(&ManualClock::new()).await;
    let (task, turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let mut browser = InboxBrowser::of(&gateway);
    let first = browser.get("/").await.body;
    assert!(first.contains("href=\"/console/tasks\"") && first.contains("<span class=\"count\">1</span>"), "{first}");
    let inbox = browser.get("/console/tasks").await.body;
    assert!(inbox.contains("Weigh a parcel") && inbox.contains(&place(&task)), "{inbox}");
    assert!(inbox.contains("in 10 min") && inbox.contains("2026-11-15 11:10 UTC"), "{inbox}");
    let page = browser.get(&place(&task)).await.body;
    assert!(page.contains("Weigh the parcel on shelf B7.") && page.contains("Take the task"), "{page}");
    assert!(!page.contains("name=\"f/kg\""), "only the person who took the task sees the form");

    let taken = browser.step(&task, "take", &[]).await;
    assert_eq!((taken.status, taken.header("location")), (303, Some(place(&task).as_str())));
    assert_eq!(by(&state(&gateway, &task).await), "local");
    let wrong = browser.step(&task, "finish", &[("f/kg", "heavy"), ("f/note", "two\r\nlines")]).await;
    assert_eq!(wrong.status, 422);
    assert!(wrong.body.contains("This must be a number") && wrong.body.contains("value=\"heavy\""), "{}", wrong.body);
    assert!(wrong.body.contains("two\nlines") && wrong.body.contains("aria-invalid=\"true\""), "{}", wrong.body);
    let small = browser.step(&task, "finish", &[("f/kg", "0")]).await;
    assert!(small.status == 422 && small.body.contains("This must be more than 0."), "{}", small.body);
    assert_eq!(by(&state(&gateway, &task).await), "local");
    assert!(!turn.is_finished());

    let done = browser.step(&task, "finish", &[("f/kg", "2.5"), ("f/note", "")]).await;
    let after = format!("/console/tasks?after={}", task.id);
    assert_eq!((done.status, done.header("location")), (303, Some(after.as_str())));
    assert!(browser.get(&after).await.body.contains("“Weigh a parcel” is done."));
    let answer = turn.await.unwrap();
    assert_eq!(result_of(messages(&answer), "c1"), "{\"kg\":2.5}");

    // An older version of the page is still open in another tab.
    let again = browser
        .post(&format!("{}/finish", place(&task)), &[("csrf", &super::token(&wrong).unwrap()), ("f/kg", "9")])
        .await;
    assert!(again.status == 409 && again.body.contains("already ended"), "{}", again.body);
    let TaskState::Done { output, .. } = state(&gateway, &task).await else { panic!("it is done") };
    assert_eq!(output, json!({"kg": 2.5}));
}

#[tokio::test]
async fn task_takeover_needs_confirmation_and_keeps_typed_text() {
    let gateway = start(&ManualClock::new()).await;
    let (task, _turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let (mut ada, mut bob) = (person(&gateway, "ada").await, person(&gateway, "bob").await);
    ada.step(&task, "take", &[]).await;
    let list = bob.get("/console/tasks").await.body;
    assert!(list.contains("Assigned to others") && list.contains("<span class=\"holder\">ada</span>"), "{list}");
    for (deed, form) in [("take", vec![]), ("give-back", vec![]), ("finish", vec![("f/kg", "1")]), ("refuse", vec![])] {
        let refused = bob.step(&task, deed, &form).await;
        assert_eq!(refused.status, 409, "{deed}");
        assert!(refused.body.contains("ada has taken the task meanwhile"), "{deed}: {}", refused.body);
    }
    assert_eq!(by(&state(&gateway, &task).await), "ada");

    let over = bob.step(&task, "take", &[("over", "yes")]).await;
    assert_eq!((over.status, by(&state(&gateway, &task).await)), (303, "bob"));
    let late = ada.step(&task, "finish", &[("f/kg", "2.5"), ("f/note", "half done")]).await;
    assert!(
        late.status == 409 && late.body.contains("value=\"2.5\"") && late.body.contains("half done"),
        "{}",
        late.body
    );
    // The first person's page shows the typed form with a button that takes the task back.
    assert!(late.body.contains("name=\"over\" value=\"yes\""), "{}", late.body);
    let back = ada.step(&task, "take", &[("over", "yes"), ("f/kg", "2.5"), ("f/note", "half done")]).await;
    assert!(back.status == 200 && back.body.contains("value=\"2.5\"") && back.body.contains("Finish"), "{}", back.body);
    ada.step(&task, "finish", &[("f/kg", "2.5"), ("f/note", "half done")]).await;
    let TaskState::Done { by, output, .. } = state(&gateway, &task).await else { panic!("it is done") };
    assert_eq!((by.as_str(), output), ("ada", json!({"kg": 2.5, "note": "half done"})));
}

#[tokio::test]
async fn task_can_be_returned_or_refused_with_a_reason() {
    let gateway = start(&ManualClock::new()).await;
    let (task, turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let mut browser = InboxBrowser::of(&gateway);
    let nothing = browser.step(&task, "give-back", &[]).await;
    assert!(nothing.status == 409 && nothing.body.contains("this task is not assigned to you"), "{}", nothing.body);
    browser.step(&task, "take", &[]).await;
    let given = browser.step(&task, "give-back", &[]).await;
    assert_eq!((given.status, state(&gateway, &task).await), (303, TaskState::Open));
    let refused = browser.step(&task, "refuse", &[("reason", " The shelf is empty. ")]).await;
    assert_eq!(refused.status, 303);
    let answer = turn.await.unwrap();
    assert!(result_of(messages(&answer), "c1").as_str().unwrap().contains("The shelf is empty."), "{answer}");
    let page = browser.get(&place(&task)).await.body;
    assert!(page.contains("Refused by local") && page.contains("The shelf is empty."), "{page}");
    assert!(!page.contains("method=\"post\""), "a closed task has no form: {page}");
}

#[tokio::test]
async fn task_actions_on_the_console_are_recorded_with_the_key_of_the_visitor() {
    let gateway = start(&ManualClock::new()).await;
    let (task, _turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let mut ada = person(&gateway, "ada").await;
    ada.step(&task, "give-back", &[]).await;
    ada.step(&task, "take", &[]).await;
    let key = gateway.engine().access().keys().await.unwrap().remove(0).id;
    let records = gateway.audit_events().await;
    let steps: Vec<_> = records.iter().map(|record| (record.action.as_deref().unwrap(), record.event)).collect();
    assert_eq!(
        steps,
        [
            ("task_give_back", AuditEvent::OperatorOrdered),
            ("task_give_back", AuditEvent::OperatorOrderFailed),
            ("task_take", AuditEvent::OperatorOrdered),
            ("task_take", AuditEvent::OperatorOrderDone),
        ]
    );
    for record in &records {
        assert_eq!((&record.by, record.subject.as_deref()), (&Principal::Key(key.clone()), Some(task.id.as_str())));
    }
}

#[tokio::test]
async fn overdue_task_cannot_be_changed_on_the_console() {
    let clock = ManualClock::new();
    let gateway = start(&clock).await;
    let (task, turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let mut browser = InboxBrowser::of(&gateway);
    let token = browser.token(&place(&task)).await;
    clock.pass(clock.now().until(task.due)).await;
    turn.await.unwrap();
    let late = browser.post(&format!("{}/take", place(&task)), &[("csrf", &token)]).await;
    assert!(late.status == 409 && late.body.contains("already ended"), "{}", late.body);
    assert!(matches!(state(&gateway, &task).await, TaskState::Withdrawn { .. }));
    assert!(browser.get("/console/tasks").await.body.contains("No tasks"));
    clock.advance(Duration::from_secs(1));
}

#[tokio::test]
async fn polled_version_changes_when_a_task_changes() {
    let gateway = start(&ManualClock::new()).await;
    let mut browser = InboxBrowser::of(&gateway);
    let version = async |browser: &mut InboxBrowser<'_>, path: &str| browser.get(path).await.json()["version"].clone();
    let empty = version(&mut browser, "/console/state").await;
    let (task, _turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let open = version(&mut browser, "/console/state").await;
    assert_ne!(open, empty);
    assert!(browser.get("/console/tasks").await.body.contains(open.as_str().unwrap()));
    let one = format!("/console/state?task={}", task.id);
    let before = version(&mut browser, &one).await;
    browser.step(&task, "take", &[]).await;
    assert_ne!(version(&mut browser, "/console/state").await, open);
    let after = version(&mut browser, &one).await;
    assert_ne!(after, before);
    assert!(browser.get(&place(&task)).await.body.contains(after.as_str().unwrap()));
}

#[tokio::test]
async fn chosen_chinese_stays_across_console_pages() {
    let gateway = start(&ManualClock::new()).await;
    let (task, _turn) = ask(&gateway, &gateway.aap(), "B7").await;
    let mut browser = InboxBrowser::of(&gateway);
    browser.says.push(("Accept-Language", "zh-CN,zh;q=0.9".to_owned()));
    let inbox = browser.get("/console/tasks").await.body;
    assert!(inbox.contains("lang=\"zh-CN\"") && inbox.contains("等待认领") && inbox.contains("10 分钟后"), "{inbox}");
    browser.says.pop();
    let chosen = browser.get("/console/tasks?lang=zh-CN").await.body;
    assert!(chosen.contains(&format!("{}?lang=zh-CN", place(&task))), "{chosen}");
    browser.step(&task, "take", &[]).await;
    let token = browser.token(&place(&task)).await;
    let form = [("csrf", token.as_str()), ("f/kg", "0")];
    let wrong = browser.post(&format!("{}/finish?lang=zh-CN", place(&task)), &form).await.body;
    assert!(wrong.contains("必须大于 0。") && wrong.contains("/finish?lang=zh-CN"), "{wrong}");
    let form = [("csrf", token.as_str()), ("f/kg", "1")];
    let done = browser.post(&format!("{}/finish?lang=zh-CN", place(&task)), &form).await;
    assert_eq!(done.header("location"), Some(format!("/console/tasks?after={}&lang=zh-CN", task.id).as_str()));
}
