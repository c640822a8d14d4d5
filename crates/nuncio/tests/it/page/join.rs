//! The page of an invite link: it shows the command with the link, and its server does not learn the secret.

use super::accessibility::accessible;
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn join_page_shows_the_command_with_the_link_and_sends_the_secret_nowhere() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let link = home.json_command(&["user", "invite", "ada"]).json()["link"].as_str().unwrap().to_owned();
    let secret = link.split_once('#').unwrap().1;
    let browser = Browser::open(BrowserSettings::default()).await;
    browser.go(&link).await;
    let command = browser.until("document.getElementById('command').textContent").await;
    assert_eq!(command, format!("nuncio device join '{link}'"));
    let offers_folder =
        "[...document.querySelectorAll('.on-computer code')].some(code => code.textContent === '--folder')";
    assert_eq!(browser.eval(offers_folder).await, true);
    assert_eq!(browser.eval("document.getElementById('incomplete').checkVisibility()").await, false);
    assert_eq!(browser.eval("document.querySelector('.on-phone').checkVisibility()").await, false, "a computer");
    let requests = browser.eval("performance.getEntriesByType('resource').map(entry => entry.name)").await;
    assert!(!requests.as_array().unwrap().is_empty() && !requests.to_string().contains(secret), "{requests}");
    for (width, dark) in [(1280, false), (360, true)] {
        browser.look(BrowserSettings { width, dark, ..BrowserSettings::default() }).await;
        accessible(&browser, &format!("join-{width}")).await;
        let sideways = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
        assert_eq!(browser.eval(sideways).await, false, "join-{width} scrolls sideways");
        device::save_screenshot(&browser, &format!("join-{width}")).await;
    }

    // The language switch keeps the secret part of the link.
    browser.click("[data-language='zh-CN']").await;
    browser.until("document.documentElement.lang === 'zh-CN'").await;
    let command = browser.until("document.getElementById('command').textContent").await;
    assert_eq!(command, format!("nuncio device join '{link}'"));
    device::save_screenshot(&browser, "join-zh-CN").await;

    browser.use_touch().await;
    browser.reload().await;
    browser.until("document.querySelector('.on-phone').checkVisibility()").await;
    device::save_screenshot(&browser, "join-phone").await;
    assert_eq!(browser.browser_errors().await, Vec::<String>::new());
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn join_page_reports_a_link_without_its_secret_as_incomplete() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let browser = Browser::open(BrowserSettings::default()).await;
    for fragment in ["", "#inv_1", "#inv_1.short"] {
        browser.go("about:blank").await;
        browser.go(&format!("{}/join{fragment}", server.url())).await;
        browser.until("document.getElementById('incomplete').hidden === false").await;
    }
    server.stop();
}
