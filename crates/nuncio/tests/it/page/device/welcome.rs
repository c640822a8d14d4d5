//! Enrolment of a machine on its own page.

use super::*;
use crate::webdriver::ENTER;

const ALERT: &str = "document.querySelector('[role=alert]')?.innerText";

#[tokio::test(flavor = "multi_thread")]
async fn device_is_enrolled_with_an_invite_on_its_own_page() {
    install_crypto();
    let home = TestAgentFolder::with_agent(&agent(""));
    home.key(&["--person", "ada"]);
    let server = home.start();
    let invite = home.json_command(&["user", "invite", "ada"]).json();
    let device =
        home.nuncio(&["--json", "device", "run", "--port", "0"]).arg("--home").arg(home.path("laptop")).start();
    let link = device.greeting["pages"].as_str().unwrap();
    let browser = Browser::open(BrowserSettings::default()).await;
    open_pages(&browser, link).await;
    browser.until("document.getElementById('fingerprint')").await;
    for (width, dark) in [(1280, false), (360, true)] {
        browser.look(BrowserSettings { width, dark, ..BrowserSettings::default() }).await;
        let what = format!("welcome-{width}");
        accessible(&browser, &what).await;
        let sideways = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
        assert_eq!(browser.eval(sideways).await, false, "{what} scrolls sideways");
        save_screenshot(&browser, &what).await;
    }
    browser.look(BrowserSettings::default()).await;
    browser.click("[data-language='zh-CN']").await;
    browser.until("document.documentElement.lang === 'zh-CN'").await;
    accessible(&browser, "welcome in Chinese").await;
    save_screenshot(&browser, "welcome-zh-CN").await;
    browser.click("[data-language=en]").await;
    browser.until("document.documentElement.lang === 'en'").await;
    browser.write("#link", &format!("{}/join#inv_1{ENTER}", server.url())).await;
    let wrong = browser.until(ALERT).await;
    assert_eq!(wrong, "This is not a complete invite link. Copy the whole link, including the part after #.");
    browser.run("document.getElementById('link').value = ''", &[]).await;
    browser.click("details summary").await;
    browser.write("#address", server.url()).await;
    browser.write("#code", invite["code"].as_str().unwrap()).await;
    browser.write("#fingerprint", &format!("12 34{ENTER}")).await;
    let wrong = browser.until(&format!("({ALERT})?.startsWith('The fingerprint') && {ALERT}")).await;
    assert_eq!(wrong, "The fingerprint is not valid: it has 64 characters from 0 to f.");
    assert_eq!(browser.eval("document.getElementById('address').value").await, server.url(), "what was written stays");
    browser.run("document.getElementById('fingerprint').value = ''", &[]).await;
    browser.write("#fingerprint", &format!("{}{ENTER}", invite["fingerprint"].as_str().unwrap())).await;
    // After the enrolment the browser shows the device pages.
    let card = browser.until("document.querySelector('.standing-this')?.innerText").await;
    assert!(card.as_str().unwrap().contains("laptop"), "{card}");
    let complaints = browser.browser_errors().await;
    assert!(complaints.iter().all(|complaint| complaint.contains("422")), "{complaints:?}");
    device.stop();
}
