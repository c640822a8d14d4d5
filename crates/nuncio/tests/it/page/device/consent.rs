//! Consent on the device pages: first request, request after a change, and revocation.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn consent_page_grants_exactly_the_switched_on_scopes() {
    let mut ada = DevicePagesSetup::ada().await;
    ada.go("/agents").await;
    ada.browser.write("#agent", "script").await;
    ada.browser.click("[action$='/agents/find'] button").await;
    ada.browser.until("document.getElementById('consent')").await;
    let browser = &ada.browser;
    let text = browser.eval("document.querySelector('main').innerText").await;
    let text = text.as_str().unwrap();
    for expected in
        ["asks you for permission", "How the agent was identified", "High sensitivity", "If you don’t allow anything"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // The most sensitive scope comes first, all scopes are off, and texts written by the agent are marked.
    let order = browser.eval("[...document.querySelectorAll('.scope input')].map(it => [it.value, it.checked])").await;
    assert_eq!(
        order,
        json!([
            ["location:read", false],
            ["filesystem:read", false],
            ["garden:water", false],
            ["notification:send", false],
        ])
    );
    let theirs = "document.querySelector('#scope-garden-water').innerText.includes('written by the agent')";
    assert_eq!(browser.eval(theirs).await, true);
    for_everyone(&ada, "/agents/script", "consent").await;

    ada.go("/agents/script").await;
    ada.browser.click("#on-filesystem-read").await;
    ada.browser.click("#on-notification-send").await;
    ada.browser.run("document.querySelector('#term-filesystem-read').value = 'day'", &[]).await;
    ada.browser.click("#consent button[type=submit]").await;
    ada.browser.until("document.querySelector('.news')").await;
    let on = ada.browser.eval("[...document.querySelectorAll('.scope input:checked')].map(it => it.value)").await;
    assert_eq!(on, json!(["filesystem:read", "notification:send"]));
    // The end of a limited grant is written in the reader's language and time zone.
    let keep = "document.querySelector('#term-filesystem-read option[value=keep]')";
    let shown = ada.browser.eval(&format!("{keep}.textContent")).await;
    let local = format!(
        "new Intl.DateTimeFormat('en', {{ dateStyle: 'medium', timeStyle: 'short' }}).format(new Date({keep}.dataset.time))"
    );
    let local = ada.browser.eval(&local).await;
    assert_eq!(shown.as_str().unwrap(), format!("unchanged, until {}", local.as_str().unwrap()));
    let number = ada.browser.eval("document.querySelector('.number')?.innerText ?? ''").await;
    assert!(number.as_str().unwrap().chars().filter(char::is_ascii_digit).count() >= 60, "{number}");
    for_everyone(&ada, "/agents", "agents").await;
    ada.assert_no_browser_errors().await;
    ada.device.take().into_iter().for_each(Server::stop);
    let agents = ada.home.nuncio(&["--json", "device", "agents"]).arg("--home").arg(ada.home.path("laptop")).run();
    assert_eq!(agents.json()["agents"][0]["allowed"], json!(["filesystem:read", "notification:send"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_page_says_what_saving_means_while_nothing_is_selected() {
    let ada = DevicePagesSetup::ada().await;
    ada.go("/agents/script").await;
    let is_warned = "document.getElementById('none-selected').checkVisibility()";
    ada.browser.until(is_warned).await;
    let warning = ada.browser.eval("document.getElementById('none-selected').innerText").await;
    assert!(warning.as_str().unwrap().contains("Nothing is selected"), "{warning}");
    ada.browser.click("#on-filesystem-read").await;
    ada.browser.until(&format!("!{is_warned}")).await;
    ada.browser.click("#on-filesystem-read").await;
    ada.browser.until(is_warned).await;
    ada.assert_no_browser_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn breaking_manifest_change_asks_again_for_the_changed_scope_only() {
    let ada = DevicePagesSetup::ada().await;
    ada.allow(&["filesystem:read", "notification:send", "location:read"]).await;
    // The new manifest requires the argument `path`, which was optional.
    let changed = agent("").replacen(
        "additionalProperties = false }",
        "required = [\"path\"], additionalProperties = false }",
        1,
    );
    ada.home.write_agent(&changed);
    ada.go("/").await;
    until("the page says that it changed", async || {
        ada.go("/").await;
        (ada.browser.eval("document.querySelector('.rows')?.innerText ?? ''").await != "").then_some(())
    })
    .await;
    for_everyone(&ada, "/", "home-changed").await;
    ada.browser.click(".rows a").await;
    ada.browser.until("document.querySelector('.change')").await;
    let change = ada.browser.eval("document.querySelector('.change').innerText").await;
    let change = change.as_str().unwrap();
    for words in [
        "Since version 1",
        "now always needs a detail that it could leave out before",
        "read_file",
        "Stays available meanwhile",
    ] {
        assert!(change.contains(words), "{words}: {change}");
    }
    let waits = ada
        .browser
        .eval("[...document.querySelectorAll('.scope:has(.notice) input')].map(it => [it.value, it.checked])");
    assert_eq!(waits.await, json!([["filesystem:read", false]]), "what changed is not switched on by itself");
    for_everyone(&ada, "/agents/script", "asked-again").await;

    ada.allow(&["filesystem:read"]).await;
    assert_eq!(ada.browser.eval("document.querySelector('.change')").await, json!(null));
    let on = ada.browser.eval("[...document.querySelectorAll('.scope input:checked')].map(it => it.value)").await;
    assert_eq!(on, json!(["location:read", "filesystem:read", "notification:send"]));
    ada.assert_no_browser_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_is_refused_if_the_manifest_changed_while_the_page_was_open() {
    let ada = DevicePagesSetup::ada().await;
    ada.go("/agents/script").await;
    ada.browser.click("#on-location-read").await;
    ada.home.write_agent(&agent("").replacen("sensitivity = \"low\"", "sensitivity = \"medium\"", 1));
    until("the relay has the new one", async || {
        let version = ada.browser.run_async(
            "const done = arguments[0]; fetch(document.body.dataset.base + '/agents/script').then(it => it.text()).then(it => done(it.includes('version 2')))",
        );
        (version.await == true).then_some(())
    })
    .await;
    ada.browser.click("#consent button[type=submit]").await;
    ada.browser
        .until("document.querySelector('.notice[role=alert]')?.innerText.includes('changed while you were viewing')")
        .await;
    assert_eq!(ada.browser.eval("document.querySelector('#on-location-read').checked").await, false);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_click_revokes_all_permissions_of_an_agent() {
    let mut ada = DevicePagesSetup::ada().await;
    ada.allow(&["filesystem:read", "location:read"]).await;
    ada.browser.click(".revoke button").await;
    ada.browser.until("document.querySelector('.news')?.innerText.includes('no permissions on this device now')").await;
    let refused = ada.calls("c1", "where_am_i", json!({})).await.unwrap();
    let next = "location:read has not been granted; ada can allow it on their device, on the page of script";
    assert!(refused.contains(next), "{refused}");
    ada.assert_no_browser_errors().await;
    assert_eq!(ada.log(), Vec::<Value>::new(), "the agent's own server refused it before the device had to");
}
