//! `[retention]`: old sessions and audit records are deleted, the deletion is recorded, and the remaining records
//! verify.

use std::num::NonZeroU32;
use std::time::Duration;

use nuncio_core::audit::AuditEvent;
use nuncio_server::admin::AdminCommand;
use nuncio_server::settings::Settings;
use nuncio_testkit::{Gateway, ManualClock, Method};
use serde_json::{Value, json};

use crate::agents::{DESK, desk, echo};

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn session_with_a_call(gateway: &Gateway) -> String {
    let session = gateway.aap().session(DESK, &[("echo", true)]).await;
    let call = json!({"tool": {"id": "c1", "name": "echo", "input": {}}});
    gateway.aap().play(&session, json!([[call], [{"text": "done"}]])).await;
    session
}

async fn exists(gateway: &Gateway, session: &str) -> bool {
    let answer = gateway.aap().request(Method::GET, &format!("/sessions/{session}")).send().await.unwrap();
    answer.status() == 200
}

/// Waits for an audit event. Advances the clock in small steps, because the pruning task may not be asleep yet.
async fn wait_for(gateway: &Gateway, clock: &ManualClock, event: AuditEvent) {
    for _ in 0..60 {
        if gateway.audit_events().await.iter().any(|record| record.event == event) {
            return;
        }
        clock.advance(Duration::from_secs(61));
        tokio::task::yield_now().await;
    }
    nuncio_testkit::eventually("it is recorded", async || {
        gateway.audit_events().await.iter().any(|record| record.event == event).then_some(())
    })
    .await;
}

async fn verify(gateway: &Gateway) -> Value {
    gateway.order(AdminCommand::AuditVerify).await.unwrap()
}

#[tokio::test]
async fn sessions_and_audit_records_older_than_the_setting_are_deleted() {
    let clock = ManualClock::new();
    let settings = |settings: &mut Settings| {
        settings.retention.sessions_days = NonZeroU32::new(2);
        settings.retention.audit_days = NonZeroU32::new(4);
    };
    let gateway = Gateway::builder().agent(DESK, &desk(&[echo()])).clock(&clock).settings(settings).start().await;
    let old = session_with_a_call(&gateway).await;
    clock.advance(DAY);
    let young = session_with_a_call(&gateway).await;
    clock.advance(DAY + Duration::from_secs(1));
    wait_for(&gateway, &clock, AuditEvent::SessionsPruned).await;
    assert_eq!((exists(&gateway, &old).await, exists(&gateway, &young).await), (false, true));
    assert_eq!(verify(&gateway).await["pruned"], Value::Null);

    clock.advance(2 * DAY);
    wait_for(&gateway, &clock, AuditEvent::AuditPruned).await;
    let proved = async || (verify(&gateway).await["pruned"] == 1).then_some(());
    nuncio_testkit::eventually("one record is pruned and the rest is proved", proved).await;
    let pruned =
        gateway.audit_events().await.into_iter().find(|record| record.event == AuditEvent::AuditPruned).unwrap();
    assert_eq!(pruned.count, Some(1));
    session_with_a_call(&gateway).await;
    assert_eq!(verify(&gateway).await["intact"], json!(true));
}

#[tokio::test]
async fn without_retention_setting_no_session_or_audit_record_is_deleted() {
    let clock = ManualClock::new();
    let gateway = Gateway::builder().agent(DESK, &desk(&[echo()])).clock(&clock).start().await;
    let old = session_with_a_call(&gateway).await;
    clock.advance(4000 * DAY);
    session_with_a_call(&gateway).await;
    assert!(exists(&gateway, &old).await);
    assert_eq!(verify(&gateway).await["records"], json!(2));
    assert!(gateway.audit_events().await.is_empty());
}
