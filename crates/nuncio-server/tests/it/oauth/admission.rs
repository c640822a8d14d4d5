//! Which subjects of an issuer AAP admits to an agent, and which may approve a call of `high` sensitivity.

use nuncio_testkit::Gateway;
use serde_json::json;

use super::{OidcProviderProcess, clock};
use crate::admission::{agent, caller_decides, grant, metrics_status, operators_decide, session_status};
use crate::agents::DESK;

async fn start(issuer: &OidcProviderProcess, people: &str) -> Gateway {
    let setting = issuer.setting(people);
    let builder = Gateway::builder().agent(DESK, &agent()).settings(|settings| settings.issuer.push(setting));
    let gateway = builder.clock(&clock()).start().await;
    gateway.key(&[]).await;
    gateway
}

#[tokio::test]
async fn subject_without_agent_scope_is_admitted_only_if_its_issuer_is_marked_as_people() {
    let issuer = OidcProviderProcess::start().await;
    let token = async |scope: &str| issuer.forge("own", json!({}), json!({"scope": scope})).await;
    let (without, with) = (token("profile mail:send").await, token("danger:do").await);
    let scraper = token("metrics:read").await;
    for people in ["", "people = false"] {
        let gateway = start(&issuer, people).await;
        let aap = gateway.aap_with_key(&without);
        assert_eq!(session_status(&aap).await, (403, "not_admitted".to_owned()), "{people:?}");
        assert_eq!(aap.get("/sessions").await.0, 403, "{people:?}");
        assert_eq!(session_status(&gateway.aap_with_key(&with)).await.0, 201, "{people:?}");
        grant(&gateway, issuer.booker()).await;
        assert_eq!(session_status(&aap).await.0, 201, "with a grant, {people:?}");
    }
    let gateway = start(&issuer, "people = true").await;
    assert_eq!(session_status(&gateway.aap_with_key(&without)).await.0, 201);
    for (token, status) in [(&without, 401), (&with, 401), (&scraper, 200)] {
        assert_eq!(metrics_status(&gateway, token).await, status);
    }
}

#[tokio::test]
async fn only_subjects_of_an_issuer_marked_as_people_approve_high_sensitivity_calls() {
    let issuer = OidcProviderProcess::start().await;
    let token = issuer.forge("own", json!({}), json!({"scope": "danger:do"})).await;
    for people in ["", "people = false"] {
        let gateway = start(&issuer, people).await;
        operators_decide(&gateway, &gateway.aap_with_key(&token)).await;
    }
    let gateway = start(&issuer, "people = true").await;
    caller_decides(&gateway, &gateway.aap_with_key(&token)).await;
}
