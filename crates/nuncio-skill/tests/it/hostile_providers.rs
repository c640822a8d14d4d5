//! Tests of the skill client with misbehaving providers: each case gives a specific error.

use nuncio_engine::ports::fetch::AddressTrust;
use nuncio_skill::client::{
    ConsumerErrorReason, ConsumerFailureCode, SecretString, SkillCall, SkillInvocationCredential, SkillTarget,
};
use nuncio_skill::wire::SkillErrorCode;
use serde_json::{Value, json};

use crate::consumer_provider::{
    ProviderRequest, TestConsumer, TestProvider, TestReply, call, descriptor, entry, index, provider, state,
};

const INDEX: &str = "GET /.well-known/skill-sharing";
const DESCRIPTOR: &str = "GET /b.json";
const CALL: &str = "POST /call";
const STATUS: &str = "GET /status/e-1";

/// Provider that follows the protocol except for the response to one request line.
async fn provider_answering(line: &'static str, reply: TestReply) -> TestProvider {
    provider(move |request, _| (request.line() == line).then(|| reply.clone())).await
}

/// Invokes the provider's skill; returns reason and code of the error, number of invocations, and error message.
async fn outcome(bad: &TestProvider) -> (ConsumerErrorReason, SkillErrorCode, usize, String) {
    let error = TestConsumer::new(&[("good.example", bad)]).invoke().await.unwrap_err();
    let ConsumerFailureCode::Protocol(code) = error.code else { panic!("{error}") };
    (error.reason, code, bad.hits(CALL), error.to_string())
}

fn changed(change: impl Fn(&mut Value)) -> TestReply {
    let mut skill = descriptor();
    change(&mut skill);
    TestReply::json(200, &skill)
}

#[tokio::test]
async fn skill_with_invalid_descriptor_is_not_invoked() {
    for change in [
        |skill: &mut Value| drop(skill.as_object_mut().unwrap().shift_remove("auth")),
        |skill: &mut Value| skill["capability_type"] = json!("magic"),
        |skill: &mut Value| skill["endpoint"]["method"] = json!("PATCH"),
        |skill: &mut Value| skill["endpoint"]["url"] = json!("javascript:alert(1)"),
        |skill: &mut Value| skill["endpoint"]["url"] = json!("/relative"),
        |skill: &mut Value| skill["endpoint"]["status_url"] = json!("file:///etc/{execution_id}"),
        |skill: &mut Value| skill["output"]["schema"] = json!({"type": "nonsense"}),
        |skill: &mut Value| skill["version"] = json!("1.0"),
        |skill: &mut Value| *skill = json!([1]),
    ] {
        let bad = provider_answering(DESCRIPTOR, changed(change)).await;
        let (reason, code, hits, said) = outcome(&bad).await;
        assert_eq!(
            (reason, code, hits),
            (ConsumerErrorReason::InvalidDocument, SkillErrorCode::ValidationError, 0),
            "{said}"
        );
        assert!(said.starts_with("https://good.example/b.json is not a valid SkillDescriptor: "), "{said}");
    }
}

#[tokio::test]
async fn document_of_a_newer_protocol_is_refused_with_both_versions_in_the_error() {
    for line in [DESCRIPTOR, INDEX] {
        let newer =
            json!({"protocol": {"version": "2.1.0", "changelog_url": "https://good.example/new"}, "brand": "new"});
        let bad = provider_answering(line, TestReply::json(200, &newer)).await;
        let error = TestConsumer::new(&[("good.example", &bad)]).invoke().await.unwrap_err();
        assert_eq!(error.code, ConsumerFailureCode::Protocol(SkillErrorCode::VersionIncompatible));
        let details = error.details.as_ref().unwrap();
        assert_eq!((&details["descriptor_version"], &details["consumer_version"]), (&json!("2.1.0"), &json!("1.0.0")));
        assert_eq!(
            (&details["supported_major"], &details["upgrade_url"]),
            (&json!(1), &json!("https://good.example/new"))
        );
        assert!(error.message.contains("2.1.0") && error.message.contains("1.0.0"), "{error}");
        assert_eq!(bad.hits(CALL), 0);
    }
}

#[tokio::test]
async fn skill_is_invoked_only_if_its_protocol_major_is_not_higher() {
    for (version, works) in [("0.9.9", true), ("1.0.0", true), ("1.99.3", true), ("2.0.0", false), ("3.0.0", false)] {
        let skill = changed(|skill| skill["protocol"]["version"] = json!(version));
        let provider = provider_answering(DESCRIPTOR, skill).await;
        let outcome = TestConsumer::new(&[("good.example", &provider)]).invoke().await;
        assert_eq!((outcome.is_ok(), provider.hits(CALL)), (works, usize::from(works)), "{version}");
    }
}

#[tokio::test]
async fn index_with_duplicate_id_on_one_page_or_across_pages_is_refused() {
    let mut twice = index();
    twice["skills"] = json!([entry("a/b"), entry("a/b")]);
    let bad = provider_answering(INDEX, TestReply::json(200, &twice)).await;
    let (reason, _, hits, said) = outcome(&bad).await;
    assert_eq!((reason, hits), (ConsumerErrorReason::InvalidDocument, 0), "{said}");

    let across = provider(|request, _| match request.line() {
        INDEX => Some(TestReply::json(200, &index()).with("link", "</p2>; rel=next")),
        "GET /p2" => Some(TestReply::json(200, &index())),
        _ => None,
    })
    .await;
    let (reason, _, hits, said) = outcome(&across).await;
    assert_eq!((reason, hits), (ConsumerErrorReason::InvalidDocument, 0));
    assert!(said.contains("\"a/b\" twice"), "{said}");
}

#[tokio::test]
async fn index_with_circular_endless_or_foreign_next_pages_is_refused() {
    let empty = || {
        let mut page = index();
        page["skills"] = json!([]);
        TestReply::json(200, &page)
    };
    let circle = provider(move |request, _| {
        request.line().starts_with(INDEX).then(|| empty().with("link", "<?cursor=1>; rel=next"))
    })
    .await;
    assert_eq!(outcome(&circle).await.0, ConsumerErrorReason::InvalidDocument);
    assert_eq!(circle.hits("GET /.well-known/skill-sharing?cursor=1"), 1, "a page is read once");

    let endless = provider(move |request: &ProviderRequest, _| {
        let page: usize = request.line().rsplit_once('=').map_or(0, |(_, page)| page.parse().unwrap());
        let next = format!("<?cursor={}>; rel=next", page + 1);
        request.line().starts_with(INDEX).then(|| empty().with("link", next))
    })
    .await;
    let (reason, _, _, said) = outcome(&endless).await;
    assert_eq!(reason, ConsumerErrorReason::InvalidDocument);
    assert!(said.contains("no end: 100 pages"), "{said}");
    assert_eq!(endless.lines().len(), 100);

    let away = provider(|request, _| {
        (request.line() == INDEX).then(|| TestReply::json(200, &index()).with("link", "<http://10.0.0.1/x>; rel=next"))
    })
    .await;
    assert!(outcome(&away).await.3.contains("another host"));
}

#[tokio::test]
async fn descriptor_of_another_skill_is_refused() {
    let bad = provider_answering(DESCRIPTOR, changed(|skill| skill["id"] = json!("a/other"))).await;
    let (reason, code, hits, said) = outcome(&bad).await;
    assert_eq!((reason, code, hits), (ConsumerErrorReason::OtherSkill, SkillErrorCode::ValidationError, 0));
    assert!(said.contains("\"a/other\"") && said.contains("\"a/b\""), "{said}");
}

#[tokio::test]
async fn redirect_is_reported_and_not_followed() {
    for line in [INDEX, DESCRIPTOR, CALL, STATUS] {
        let bad =
            provider_answering(line, TestReply::text(302, "").with("location", "http://169.254.169.254/latest")).await;
        let (reason, code, _, said) = outcome(&bad).await;
        assert_eq!((reason, code), (ConsumerErrorReason::Redirected, SkillErrorCode::EndpointUnreachable), "{line}");
        assert!(said.contains("169.254.169.254") && said.contains("not followed"), "{said}");
    }
}

#[tokio::test]
async fn private_addresses_in_documents_are_refused() {
    let inside = provider(|_, _| None).await;
    for address in [
        format!("http://127.0.0.1:{}", inside.port),
        format!("http://localhost:{}", inside.port),
        format!("https://127.0.0.1:{}", inside.port),
        "https://10.0.0.1".to_owned(),
        "https://[::1]".to_owned(),
        "http://good.example".to_owned().replace("good", "other"),
    ] {
        let mut listed = index();
        listed["skills"][0]["descriptor_url"] = json!(format!("{address}/b.json"));
        let bad = provider_answering(INDEX, TestReply::json(200, &listed)).await;
        let (reason, code, hits, said) = outcome(&bad).await;
        assert_eq!(
            (reason, code, hits),
            (ConsumerErrorReason::Refused, SkillErrorCode::EndpointUnreachable, 0),
            "{address}: {said}"
        );

        let skill = changed(|skill| skill["endpoint"]["url"] = json!(format!("{address}/call")));
        let (reason, _, _, said) = outcome(&provider_answering(DESCRIPTOR, skill).await).await;
        assert_eq!(reason, ConsumerErrorReason::Refused, "{address}: {said}");

        let skill = changed(|skill| skill["endpoint"]["status_url"] = json!(format!("{address}/{{execution_id}}")));
        let (reason, _, _, said) = outcome(&provider_answering(DESCRIPTOR, skill).await).await;
        assert_eq!(reason, ConsumerErrorReason::Refused, "{address}: {said}");
    }
    assert_eq!(inside.lines(), Vec::<String>::new(), "nothing inside was asked");
}

#[tokio::test]
async fn http_endpoint_of_an_https_host_is_fetched_as_untrusted() {
    let weak =
        provider_answering(DESCRIPTOR, changed(|skill| skill["endpoint"]["url"] = json!("http://good.example/call")))
            .await;
    let world = TestConsumer::new(&[("good.example", &weak)]);
    let _ = world.invoke().await;
    assert_eq!(
        world.trust_of("http://good.example/call"),
        Some(AddressTrust::Stranger),
        "the way out refuses plain http"
    );
}

#[tokio::test]
async fn wrong_content_type_and_invalid_json_are_errors_in_every_response() {
    for line in [INDEX, DESCRIPTOR, CALL, STATUS] {
        let page = provider_answering(line, TestReply::text(200, "<html>")).await;
        assert_eq!(outcome(&page).await.0, ConsumerErrorReason::WrongType, "{line}");
        let untyped = provider_answering(line, TestReply::Whole(200, vec![], "{}".to_owned())).await;
        assert_eq!(outcome(&untyped).await.0, ConsumerErrorReason::WrongType, "{line}");
        for body in ["", "{", "\u{0}", "{\"a\":1,\"a\":2}", &"[".repeat(5000), "null"] {
            let broken = TestReply::Whole(
                200,
                vec![("content-type", "application/json; charset=utf-8".to_owned())],
                body.to_owned(),
            );
            let (reason, code, _, said) = outcome(&provider_answering(line, broken).await).await;
            assert_eq!(
                (reason, code),
                (ConsumerErrorReason::InvalidDocument, SkillErrorCode::ValidationError),
                "{line} {body:.9}: {said}"
            );
        }
    }
}

#[tokio::test]
async fn error_response_without_error_body_gets_its_code_from_the_http_status() {
    for (status, code) in [
        (500, SkillErrorCode::EndpointUnreachable),
        (401, SkillErrorCode::AuthRequired),
        (403, SkillErrorCode::PermissionDenied),
        (404, SkillErrorCode::SkillNotFound),
        (408, SkillErrorCode::InvocationTimeout),
        (504, SkillErrorCode::InvocationTimeout),
        (418, SkillErrorCode::ValidationError),
    ] {
        let bad = provider_answering(CALL, TestReply::text(status, "<html>\u{1b}[2Jtraceback")).await;
        let (reason, said_code, hits, said) = outcome(&bad).await;
        assert_eq!((reason, said_code, hits), (ConsumerErrorReason::Answered, code, 1), "{status}");
        assert!(said.contains(&status.to_string()) && !said.contains("traceback"), "{said}");
    }
    let envelope = json!({"error": {"code": "PERMISSION_DENIED", "message": "no\u{1b}[2J\nway",
        "details": {"required_scopes": ["a"], "granted_scopes": []}}});
    let bad = provider_answering(CALL, TestReply::json(403, &envelope)).await;
    let error = TestConsumer::new(&[("good.example", &bad)]).invoke().await.unwrap_err();
    assert_eq!(error.details.as_ref().unwrap()["required_scopes"], json!(["a"]));
    assert!(!error.to_string().contains(char::is_control), "{error:?}");
}

#[tokio::test]
async fn endless_body_and_missing_response_are_aborted() {
    for (line, hits) in [(INDEX, 0), (DESCRIPTOR, 0), (CALL, 1)] {
        let (reason, _, invoked, said) = outcome(&provider_answering(line, TestReply::Endless).await).await;
        assert_eq!((reason, invoked), (ConsumerErrorReason::TooLarge, hits), "{line}: {said}");
        let silent = provider_answering(line, TestReply::Silent).await;
        let error = TestConsumer::hurried(&[("good.example", &silent)], Some(line)).invoke().await.unwrap_err();
        assert_eq!((error.reason, silent.hits(CALL)), (ConsumerErrorReason::TooSlow, hits), "{line}: {error}");
        assert!(line != CALL || error.to_string().contains("--idempotency-key"), "{error}");
    }
    let spaces =
        TestReply::Whole(200, vec![("content-type", "application/json".to_owned())], " ".repeat((1 << 20) + 1));
    assert_eq!(outcome(&provider_answering(DESCRIPTOR, spaces).await).await.0, ConsumerErrorReason::TooLarge);
    let silent = provider_answering(STATUS, TestReply::Silent).await;
    let error = TestConsumer::hurried(&[("good.example", &silent)], Some(STATUS)).invoke().await.unwrap_err();
    assert_eq!((error.reason, error.execution.as_deref()), (ConsumerErrorReason::TooSlow, Some("e-1")));
    assert_eq!(silent.hits(STATUS), 11, "a provider that falls silent is left after ten more looks");
}

#[tokio::test]
async fn response_with_changed_execution_or_skill_id_is_refused() {
    let other = |field: &'static str| {
        let mut answer = state("completed");
        answer[field] = json!("other");
        answer
    };
    for (line, field) in [(CALL, "skill_id"), (STATUS, "skill_id"), (STATUS, "execution_id")] {
        let bad = provider_answering(line, TestReply::json(200, &other(field))).await;
        let (reason, code, _, said) = outcome(&bad).await;
        assert_eq!((reason, code), (ConsumerErrorReason::Changed, SkillErrorCode::ValidationError), "{line} {field}");
        assert!(said.contains("\"other\""), "{said}");
    }
    let long = provider_answering(
        CALL,
        TestReply::json(202, &{
            let mut answer = state("accepted");
            answer["execution_id"] = json!("x".repeat(10_000));
            answer
        }),
    )
    .await;
    assert_eq!(outcome(&long).await.0, ConsumerErrorReason::InvalidDocument);
}

#[tokio::test]
async fn status_change_from_running_back_to_accepted_is_refused() {
    let bad = provider(|request, before| {
        let status = ["running", "accepted"].get(before).unwrap_or(&"completed");
        (request.line() == STATUS).then(|| TestReply::json(200, &state(status)))
    })
    .await;
    let (reason, _, _, said) = outcome(&bad).await;
    assert_eq!(reason, ConsumerErrorReason::Backwards);
    assert!(said.contains("reports accepted after it had reported running"), "{said}");
}

#[tokio::test]
async fn invalid_status_response_is_refused() {
    let broken: [fn(&mut Value); 5] = [
        |answer| drop(answer.as_object_mut().unwrap().shift_remove("timestamps")),
        |answer| answer["status"] = json!("cancelled"),
        |answer| answer["execution_id"] = json!(7),
        |answer| answer["error"] = json!({"code": "X", "message": "both"}),
        |answer| answer["timestamps"]["created_at"] = json!("yesterday"),
    ];
    for change in broken {
        let mut answer = state("completed");
        change(&mut answer);
        let bad = provider_answering(STATUS, TestReply::json(200, &answer)).await;
        assert_eq!(outcome(&bad).await.0, ConsumerErrorReason::InvalidDocument, "{answer}");
    }
}

#[tokio::test]
async fn unfinished_execution_without_status_url_is_an_error_with_its_id() {
    let skill = changed(|skill| drop(skill["endpoint"].as_object_mut().unwrap().shift_remove("status_url")));
    let bad = provider_answering(DESCRIPTOR, skill).await;
    let error = TestConsumer::new(&[("good.example", &bad)]).invoke().await.unwrap_err();
    assert_eq!((error.reason, error.execution.as_deref()), (ConsumerErrorReason::NoStatusUrl, Some("e-1")));
}

#[tokio::test]
async fn output_violating_its_schema_is_refused() {
    let mut answer = state("completed");
    answer["output"] = json!({"text": 7});
    let bad = provider_answering(STATUS, TestReply::json(200, &answer)).await;
    let (reason, code, _, said) = outcome(&bad).await;
    assert_eq!((reason, code), (ConsumerErrorReason::BadOutput, SkillErrorCode::ValidationError));
    assert!(said.contains("/text"), "{said}");
}

#[tokio::test]
async fn skill_with_non_json_request_content_type_is_not_invoked() {
    let skill = changed(|skill| skill["endpoint"]["content_type"] = json!("multipart/form-data"));
    let (reason, _, hits, said) = outcome(&provider_answering(DESCRIPTOR, skill).await).await;
    assert_eq!((reason, hits), (ConsumerErrorReason::CannotSend, 0), "{said}");
}

/// A host with an index, and a second host with the descriptor and endpoint, which require an API key.
async fn third_party() -> (TestProvider, TestProvider) {
    let mut listed = index();
    listed["skills"][0]["descriptor_url"] = json!("https://evil.example/b.json");
    let good = provider_answering(INDEX, TestReply::json(200, &listed)).await;
    let evil = provider_answering(
        DESCRIPTOR,
        changed(|skill| {
            skill["auth"] = json!({"type": "api_key", "header": "X-Key"});
            skill["endpoint"]["url"] = json!("https://evil.example/call");
            skill["endpoint"]["status_url"] = json!("https://evil.example/status/{execution_id}");
        }),
    )
    .await;
    (good, evil)
}

#[tokio::test]
async fn credential_is_sent_to_third_party_endpoint_only_if_the_caller_names_it() {
    let key = SkillCall { credential: SkillInvocationCredential::ApiKey(SecretString::new("hunter22")), ..call() };
    let (good, evil) = third_party().await;
    let world = TestConsumer::new(&[("good.example", &good), ("evil.example", &evil)]);
    let error = world.call(&key).await.unwrap_err();
    assert_eq!(
        (error.reason, error.code),
        (ConsumerErrorReason::CredentialElsewhere, ConsumerFailureCode::Protocol(SkillErrorCode::AuthRequired))
    );
    assert!(error.to_string().contains("--credential-for evil.example"), "{error}");
    assert_eq!(evil.hits(CALL), 0);
    let saw = |provider: &TestProvider| {
        let lines = provider.lines();
        lines.iter().flat_map(|line| provider.got(line)).any(|sent| format!("{sent:?}").contains("hunter22"))
    };
    assert!(!saw(&evil) && !saw(&good));

    let meant = SkillCall { credential_for: Some("evil.example".to_owned()), ..key };
    assert_eq!(world.call(&meant).await.unwrap(), json!({"text": "hi"}));
    assert_eq!(evil.got(CALL)[0].header("x-key"), Some("hunter22"));
    assert_eq!(evil.got(DESCRIPTOR).last().unwrap().header("x-key"), None, "a descriptor needs no key");
}

#[tokio::test]
async fn credential_is_not_sent_to_status_url_on_another_host() {
    let elsewhere = provider(|_, _| None).await;
    let good = provider_answering(
        DESCRIPTOR,
        changed(|skill| {
            skill["auth"] = json!({"type": "api_key", "header": "X-Key"});
            skill["endpoint"]["status_url"] = json!("https://else.example/status/{execution_id}");
        }),
    )
    .await;
    let world = TestConsumer::new(&[("good.example", &good), ("else.example", &elsewhere)]);
    let key = SkillCall { credential: SkillInvocationCredential::ApiKey(SecretString::new("hunter22")), ..call() };
    world.call(&key).await.unwrap();
    assert_eq!(good.got(CALL)[0].header("x-key"), Some("hunter22"));
    assert!(elsewhere.hits(STATUS) > 0);
    assert!(elsewhere.got(STATUS).iter().all(|sent| !sent.head.contains("hunter22")));
}

#[tokio::test]
async fn error_messages_contain_no_control_characters_from_a_provider() {
    let bad = provider_answering(DESCRIPTOR, changed(|skill| skill["id"] = json!("a/\u{1b}[2J\u{202e}b"))).await;
    let error = TestConsumer::new(&[("good.example", &bad)]).invoke().await.unwrap_err();
    assert!(!error.to_string().contains(['\u{1b}', '\u{202e}']), "{error:?}");
    let target = SkillTarget::parse("https://good.example/none.json").unwrap();
    let error = TestConsumer::new(&[("good.example", &bad)]).consumer.invoke(&target, &call()).await.unwrap_err();
    assert_eq!(error.code, ConsumerFailureCode::Protocol(SkillErrorCode::SkillNotFound));
}
