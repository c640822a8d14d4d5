//! Tests of the skill client (`Consumer`) with providers that follow the protocol.

use std::time::Duration;

use nuncio_engine::ports::fetch::AddressTrust;
use nuncio_skill::client::ConsumerFailureCode;
use nuncio_skill::client::{
    ConsumerErrorReason, InvocationProgress, SkillCall, SkillInvocationCredential, SkillTarget,
};
use nuncio_skill::wire::{CapabilityType, InvocationContext, Priority, SkillErrorCode};
use serde_json::{Value, json};

use crate::consumer_provider::{TestConsumer, TestReply, call, descriptor, entry, index, provider, state, target};

const CALL: &str = "POST /call";
const STATUS: &str = "GET /status/e-1";

#[tokio::test]
async fn invoke_resolves_the_target_sends_all_call_options_and_returns_the_output() {
    let good = provider(|_, _| None).await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    let context = InvocationContext {
        trace_id: Some("t-1".to_owned()),
        priority: Some(Priority::High),
        timeout_ms: Some(60_000_u64.into()),
        ..InvocationContext::default()
    };
    let call = SkillCall { context, traceparent: Some("00-1-2-01".to_owned()), ..call() };
    assert_eq!(world.call(&call).await.unwrap(), json!({"text": "hi"}));

    let sent = &good.got(CALL)[0];
    let expected = json!({
        "caller": {"id": "nuncio", "type": "service"}, "skill_id": "a/b", "inputs": {"text": "hi", "times": 1},
        "context": {"trace_id": "t-1", "priority": "high", "timeout_ms": 60000},
    });
    assert_eq!(sent.json(), expected);
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.header("traceparent"), Some("00-1-2-01"));
    assert!(sent.header("idempotency-key").is_some_and(|key| key.len() >= 20));
    assert_eq!(sent.header("prefer"), Some("wait=1"));
    assert_eq!(world.pauses(), [250, 375], "looks grow by half");
    let events: Vec<Value> = world.events.lock().unwrap().iter().map(|event| json!(event)["event"].clone()).collect();
    assert_eq!(json!(events), json!(["discovered", "described", "accepted", "running", "completed"]));
    assert_eq!(world.trust_of("https://good.example/b.json"), Some(AddressTrust::Configured), "the host was named");
}

#[tokio::test]
async fn descriptor_url_as_target_is_invoked_without_reading_the_index() {
    let good = provider(|_, _| None).await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    let target = SkillTarget::parse("https://good.example/b.json").unwrap();
    assert_eq!(world.consumer.invoke(&target, &call()).await.unwrap(), json!({"text": "hi"}));
    assert_eq!(good.hits("GET /.well-known/skill-sharing"), 0);
}

#[tokio::test]
async fn skill_with_method_get_receives_inputs_in_the_query_and_may_answer_at_once() {
    let good = provider(|request, _| match request.line() {
        "GET /b.json" => {
            let mut skill = descriptor();
            skill["endpoint"] = json!({"url": "https://good.example/call?v=2", "method": "GET"});
            skill["inputs"][1]["type"] = json!("object");
            skill["inputs"][1]["default"] = json!({"a": 1});
            Some(TestReply::json(200, &skill))
        }
        line if line.starts_with("GET /call?") => Some(TestReply::json(200, &state("completed"))),
        _ => None,
    })
    .await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    let context = InvocationContext {
        priority: Some(Priority::Low),
        timeout_ms: Some(5000_u64.into()),
        ..InvocationContext::default()
    };
    let Value::Object(inputs) = json!({"text": "a&b ü"}) else { panic!("an object") };
    assert_eq!(
        world.call(&SkillCall { inputs, context, ..SkillCall::default() }).await.unwrap(),
        json!({"text": "hi"})
    );
    let sent = good.got("GET /call?v=2&text=a%26b+%C3%BC&times=%7B%22a%22%3A1%7D");
    assert_eq!(sent.len(), 1, "{:?}", good.lines());
    assert_eq!(
        (sent[0].header("x-skill-caller-id"), sent[0].header("x-skill-caller-type")),
        (Some("nuncio"), Some("service"))
    );
    assert_eq!((sent[0].header("x-skill-priority"), sent[0].header("x-skill-timeout-ms")), (Some("low"), Some("5000")));
    assert_eq!((sent[0].body.as_str(), sent[0].header("content-type")), ("", None));

    let Value::Object(inputs) = json!({"text": "x".repeat(9000)}) else { panic!("an object") };
    assert_eq!(world.call(&SkillCall::with(inputs)).await.unwrap_err().reason, ConsumerErrorReason::CannotSend);
}

#[tokio::test]
async fn pages_of_a_skill_index_are_merged() {
    let page = |ids: &[&str]| {
        let mut page = index();
        page["skills"] = ids.iter().map(|id| entry(id)).collect();
        TestReply::json(200, &page)
    };
    let good = provider(move |request, _| match request.line() {
        "GET /.well-known/skill-sharing" => Some(page(&["a/a"]).with("link", "</p2>; rel=\"next\"")),
        "GET /p2" => Some(page(&["a/b", "a/c"]).with("link", "<https://good.example/p3>; rel=next")),
        "GET /p3" => Some(page(&["a/d"])),
        _ => None,
    })
    .await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    let found = world.consumer.discover(&target(), None, &SkillInvocationCredential::None).await.unwrap();
    let ids: Vec<_> = found.index.skills.iter().map(|skill| skill.id.as_str()).collect();
    assert_eq!(ids, ["a/a", "a/b", "a/c", "a/d"]);
    assert!(found.skill("a/c").is_some() && found.skill("a/x").is_none());
}

#[tokio::test]
async fn type_filter_is_sent_and_applied_to_the_response() {
    let good = provider(|request, _| {
        let mut both = index();
        both["skills"] = json!([entry("a/b"), entry("a/t")]);
        both["skills"][1]["capability_type"] = json!("task");
        request.line().starts_with("GET /.well-known/skill-sharing?").then(|| TestReply::json(200, &both))
    })
    .await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    let only = Some(CapabilityType::Task);
    let found = world.consumer.discover(&target(), only, &SkillInvocationCredential::None).await.unwrap();
    assert_eq!(found.index.skills.iter().map(|skill| skill.id.as_str()).collect::<Vec<_>>(), ["a/t"]);
    assert_eq!(good.hits("GET /.well-known/skill-sharing?type=task"), 1);
}

#[tokio::test]
async fn target_without_skill_id_fails_with_a_list_of_skills_and_unlisted_id_fails() {
    let good = provider(|_, _| None).await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    let host = SkillTarget::parse("good.example").unwrap();
    let error = world.consumer.invoke(&host, &call()).await.unwrap_err();
    assert_eq!(error.reason, ConsumerErrorReason::WhichSkill);
    assert!(error.message.contains("a/b@good.example"), "{error}");
    let other = SkillTarget::parse("a/none@good.example").unwrap();
    let error = world.consumer.invoke(&other, &call()).await.unwrap_err();
    assert_eq!(
        (error.reason, error.code),
        (ConsumerErrorReason::NotListed, ConsumerFailureCode::Protocol(SkillErrorCode::SkillNotFound))
    );
}

#[tokio::test]
async fn unavailable_endpoint_is_retried_with_same_idempotency_key_up_to_max_attempts() {
    let flaky = |failures: usize, retry: Value| {
        provider(move |request, before| match request.line() {
            "GET /b.json" => {
                let mut skill = descriptor();
                skill["endpoint"]["retry"] = retry.clone();
                Some(TestReply::json(200, &skill))
            }
            CALL if before < failures => Some(TestReply::text(503, "busy")),
            _ => None,
        })
    };
    let retry = json!({"max_attempts": 3, "backoff_ms": 1000});
    let good = flaky(2, retry.clone()).await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    world.invoke().await.unwrap();
    assert_eq!(world.pauses()[..2], [1000, 2000], "as the descriptor says, and doubled");
    let keys: Vec<_> = good.got(CALL).iter().map(|sent| sent.header("idempotency-key").unwrap().to_owned()).collect();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");

    let down = flaky(usize::MAX, retry).await;
    let world = TestConsumer::new(&[("good.example", &down)]);
    let error = world.invoke().await.unwrap_err();
    assert_eq!(
        (error.reason, error.code),
        (ConsumerErrorReason::Answered, ConsumerFailureCode::Protocol(SkillErrorCode::EndpointUnreachable))
    );
    assert_eq!((down.hits(CALL), world.pauses()), (3, vec![1000, 2000]));
}

#[tokio::test]
async fn delay_requested_by_the_provider_replaces_a_shorter_retry_delay() {
    let envelope = json!({"error": {"code": "ENDPOINT_UNREACHABLE", "message": "busy",
        "retry": {"suggested_delay_ms": 3000, "max_attempts": 3}}});
    let good = provider(move |request, before| match (request.line(), before) {
        (CALL, 0) => Some(TestReply::text(429, "").with("retry-after", "7")),
        (CALL, 1) => Some(TestReply::text(502, "").with("retry-after", "0")),
        (CALL, 2) => Some(TestReply::json(503, &envelope)),
        _ => None,
    })
    .await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    world.invoke().await.unwrap();
    assert_eq!(world.pauses()[..3], [7000, 1000, 3000], "Retry-After, then our own, then the envelope's advice");
}

#[tokio::test]
async fn retries_stop_at_the_callers_timeout() {
    let down = provider(|request, _| (request.line() == CALL).then(|| TestReply::text(503, ""))).await;
    let world = TestConsumer::new(&[("good.example", &down)]);
    let mut hurried = call();
    hurried.context.timeout_ms = Some(1_u64.into());
    hurried.context.priority = None;
    let error = world.call(&hurried).await.unwrap_err();
    assert_eq!(error.code, ConsumerFailureCode::Protocol(SkillErrorCode::EndpointUnreachable));
    assert!(down.hits(CALL) < 10 && world.pauses().iter().sum::<u64>() < 5001, "{:?}", world.pauses());
}

#[tokio::test]
async fn closed_port_is_reported_as_unreachable_after_retries() {
    let good = provider(|request, _| {
        let mut skill = descriptor();
        skill["endpoint"]["url"] = json!("https://gone.example/call");
        (request.line() == "GET /b.json").then(|| TestReply::json(200, &skill))
    })
    .await;
    let mut gone = provider(|_, _| None).await;
    gone.port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let world = TestConsumer::new(&[("good.example", &good), ("gone.example", &gone)]);
    let error = world.invoke().await.unwrap_err();
    assert_eq!(error.reason, ConsumerErrorReason::Unreachable);
    assert_eq!(world.pauses(), [500, 1000, 2000]);
    assert!(world.notes().iter().any(|note| note.contains("another host: gone.example")), "{:?}", world.notes());
}

#[tokio::test]
async fn retry_after_replaces_polling_delay() {
    let good = provider(|request, before| match (request.line(), before) {
        (CALL, _) => Some(TestReply::json(202, &state("accepted")).with("retry-after", "2")),
        (STATUS, 0) => Some(TestReply::json(200, &state("accepted")).with("retry-after", "1")),
        (STATUS, 1) => Some(TestReply::json(200, &state("running"))),
        (STATUS, 2) => Some(TestReply::text(503, "").with("retry-after", "9")),
        (STATUS, 3) => Some(TestReply::text(502, "")),
        (STATUS, 4) => Some(TestReply::json(200, &state("running")).with("retry-after", "999999999")),
        _ => None,
    })
    .await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    world.invoke().await.unwrap();
    assert_eq!(world.pauses(), [2000, 1000, 562, 9000, 1265, 300_000]);
}

#[tokio::test]
async fn polling_stops_five_seconds_after_the_callers_timeout() {
    let slow = provider(|request, _| (request.line() == STATUS).then(|| TestReply::json(200, &state("running")))).await;
    let world = TestConsumer::new(&[("good.example", &slow)]);
    let mut hurried = call();
    hurried.context.timeout_ms = Some(10_000_u64.into());
    let error = world.call(&hurried).await.unwrap_err();
    assert_eq!(
        (error.reason, error.code),
        (ConsumerErrorReason::GaveUp, ConsumerFailureCode::Protocol(SkillErrorCode::InvocationTimeout))
    );
    assert_eq!(error.execution.as_deref(), Some("e-1"));
    assert!(error.to_string().contains("https://good.example/status/e-1"), "{error}");
    assert_eq!(world.pauses().iter().sum::<u64>(), 15_000, "and five seconds, for the provider to say so itself");
    assert_eq!(world.span_of(CALL), Some(Duration::from_secs(15)), "the first answer has no more time than the whole");
}

#[tokio::test]
async fn error_about_an_invalid_response_says_that_the_execution_may_exist() {
    let mumbling =
        provider(|request, _| (request.line() == CALL).then(|| TestReply::json(202, &json!({"hi": 1})))).await;
    let world = TestConsumer::new(&[("good.example", &mumbling)]);
    let events = world.invoke().await.unwrap_err();
    assert_eq!(events.reason, ConsumerErrorReason::InvalidDocument);
    assert!(events.to_string().contains("may have accepted it; retry with --idempotency-key"), "{events}");
    let lost = provider(|request, _| (request.line() == STATUS).then(|| TestReply::json(200, &json!({"hi": 1})))).await;
    let events = TestConsumer::new(&[("good.example", &lost)]).invoke().await.unwrap_err();
    assert_eq!((events.reason, events.execution.as_deref()), (ConsumerErrorReason::InvalidDocument, Some("e-1")));
    assert!(events.to_string().contains("the execution may still run there"), "{events}");
}

#[tokio::test]
async fn failed_execution_returns_providers_code_message_and_details() {
    let ended = |status: &'static str, error: Value| {
        provider(move |request, _| {
            let mut answer = state(status);
            answer["error"] = error.clone();
            (request.line() == STATUS).then(|| TestReply::json(200, &answer))
        })
    };
    let retry = json!({"suggested_delay_ms": 1000, "max_attempts": 3});
    for (status, word, reason, code) in [
        ("failed", "EXECUTION_FAILED", ConsumerErrorReason::Failed, ConsumerFailureCode::ExecutionFailed),
        ("failed", "OUT_OF_TABLES", ConsumerErrorReason::Failed, ConsumerFailureCode::ExecutionFailed),
        (
            "failed",
            "PERMISSION_DENIED",
            ConsumerErrorReason::Failed,
            ConsumerFailureCode::Protocol(SkillErrorCode::PermissionDenied),
        ),
        (
            "timeout",
            "EXECUTION_TIMEOUT",
            ConsumerErrorReason::TimedOut,
            ConsumerFailureCode::Protocol(SkillErrorCode::InvocationTimeout),
        ),
    ] {
        let error = json!({"code": word, "message": "no luck", "details": {"table": 4}, "retry": retry});
        let good = ended(status, error).await;
        let error = TestConsumer::new(&[("good.example", &good)]).invoke().await.unwrap_err();
        assert_eq!((error.reason, error.code), (reason, code), "{word}");
        assert_eq!((error.message.as_str(), error.execution.as_deref()), ("no luck", Some("e-1")));
        assert_eq!(error.details, Some(json!({"table": 4})));
        assert_eq!(json!(error.retry), retry);
        assert_eq!(error.to_string().contains("OUT_OF_TABLES"), word == "OUT_OF_TABLES", "{error}");
    }
}

#[tokio::test]
async fn cancel_sends_delete_to_the_status_url_and_fails_if_it_is_refused() {
    let good = provider(|_, _| None).await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    let described = world.consumer.describe(&target(), &SkillInvocationCredential::None).await.unwrap();
    let execution = world.consumer.submit(&described, &call()).await.unwrap();
    world.consumer.cancel(&execution).await.unwrap();
    assert_eq!(good.hits("DELETE /status/e-1"), 1);

    let stubborn = provider(|request, _| request.line().starts_with("DELETE").then(|| TestReply::text(405, ""))).await;
    let world = TestConsumer::new(&[("good.example", &stubborn)]);
    let described = world.consumer.describe(&target(), &SkillInvocationCredential::None).await.unwrap();
    let execution = world.consumer.submit(&described, &call()).await.unwrap();
    let error = world.consumer.cancel(&execution).await.unwrap_err();
    assert_eq!(error.code, ConsumerFailureCode::Protocol(SkillErrorCode::ValidationError));
}

#[tokio::test]
async fn output_is_fetched_from_result_url_when_the_status_has_none() {
    let good = provider(|request, _| {
        let with_id = |status: &str| {
            let mut answer = state(status);
            answer["execution_id"] = json!("a/b ?#é");
            answer
        };
        match request.line() {
            "GET /b.json" => {
                let mut skill = descriptor();
                skill["endpoint"]["status_url"] =
                    json!("https://good.example/s/{execution_id}?again={execution_id}&x={y}");
                skill["endpoint"]["result_url"] = json!("https://good.example/r");
                Some(TestReply::json(200, &skill))
            }
            CALL => Some(TestReply::json(202, &with_id("accepted"))),
            line if line.starts_with("GET /s/") => {
                let mut bare = with_id("completed");
                bare.as_object_mut().unwrap().shift_remove("output");
                Some(TestReply::json(200, &bare))
            }
            line if line.starts_with("GET /r/") => Some(TestReply::json(200, &with_id("completed"))),
            _ => None,
        }
    })
    .await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    assert_eq!(world.invoke().await.unwrap(), json!({"text": "hi"}));
    let id = "a%2Fb%20%3F%23%C3%A9";
    let lines = good.lines();
    assert!(lines.contains(&format!("GET /s/{id}?again={id}&x={{y}}")), "{lines:?}");
    assert!(lines.contains(&format!("GET /r/{id}")), "without a placeholder the id goes to the end: {lines:?}");
    assert!(world.notes().iter().any(|note| note.contains("/endpoint/result_url has no {execution_id}")));
}

#[tokio::test]
async fn descriptor_differing_from_index_causes_warning_only() {
    let good = provider(|request, _| {
        let mut skill = descriptor();
        skill["version"] = json!("2.0.0");
        skill["access"] = json!("restricted");
        (request.line() == "GET /b.json").then(|| TestReply::json(200, &skill))
    })
    .await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    world.invoke().await.unwrap();
    let notes = world.notes().join("\n");
    assert!(notes.contains("version 1.0.0, the descriptor 2.0.0") && notes.contains("access public"), "{notes}");
}

#[tokio::test]
async fn invalid_inputs_are_reported_and_not_sent() {
    let good = provider(|_, _| None).await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    let Value::Object(inputs) = json!({"times": "often", "more": 1}) else { panic!("an object") };
    let error = world.call(&SkillCall::with(inputs)).await.unwrap_err();
    assert_eq!(
        (error.reason, error.code),
        (ConsumerErrorReason::BadInputs, ConsumerFailureCode::Protocol(SkillErrorCode::ValidationError))
    );
    let paths: Vec<_> =
        error.details.as_ref().unwrap().as_array().unwrap().iter().map(|fault| &fault["path"]).collect();
    assert_eq!(paths, ["/inputs/text", "/inputs/times", "/inputs/more"]);
    assert_eq!(good.hits(CALL), 0);
}

#[tokio::test]
async fn described_progress_event_contains_endpoint_and_skill_id() {
    let good = provider(|_, _| None).await;
    let world = TestConsumer::new(&[("good.example", &good)]);
    world.invoke().await.unwrap();
    let events = world.events.lock().unwrap();
    let described = events.iter().find_map(|event| match event {
        InvocationProgress::Described { endpoint, skill_id, .. } => Some((endpoint.as_str(), skill_id.as_str())),
        _ => None,
    });
    assert_eq!(described, Some(("https://good.example/call", "a/b")));
}
