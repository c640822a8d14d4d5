//! Markdown in answers, example messages, and errors that a browser shows.

use serde_json::json;

use super::ChatPageSetup;
use crate::home::{SCRIPTED, TestAgentFolder};
use crate::webdriver::{Browser, BrowserSettings};

/// `[agent]` section with examples; the script brain plays what it is sent.
fn scripted(keys: &str) -> String {
    SCRIPTED.replace("[allow]", &format!("{keys}\n[allow]"))
}

/// The tags and texts of the last answer, as one line without attributes.
const OUTLINE: &str = "(() => {
  const outline = (node) => node.nodeType === 3 ? node.data : `<${node.localName}>${[...node.childNodes].map(outline).join('')}</${node.localName}>`;
  return [...[...document.querySelectorAll('.markdown')].at(-1).childNodes].map(outline).join('');
})()";

async fn outline_of(visit: &ChatPageSetup, text: &str) -> String {
    visit.play(json!([[{"text": text}]])).await;
    visit.is("idle").await;
    visit.browser.eval(OUTLINE).await.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn markdown_of_an_answer_becomes_elements_and_markup_stays_text() {
    let visit = ChatPageSetup::script().await;
    for (text, expected) in [
        (
            "# Rooms\n\nTwo *free* **rooms**:\n- `101`\n- 102\n  1. view",
            "<h3>Rooms</h3><p>Two <em>free</em> <strong>rooms</strong>:</p><ul><li><code>101</code></li><li>102<ol><li>view</li></ol></li></ul>",
        ),
        (
            "```html\n<b>x</b>\n\n# no\n```\n> said",
            "<pre><code><b>x</b>\n\n# no</code></pre><blockquote><p>said</p></blockquote>",
        ),
        (
            "| a | b |\n|---|---|\n| 1 | **2** |",
            "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><strong>2</strong></td></tr></tbody></table></div>",
        ),
        ("Title\r\n\r\n- a\r\n- b\r\n\r\n---\r\nx\ry", "<p>Title</p><ul><li>a</li><li>b</li></ul><hr></hr><p>x\ny</p>"),
        ("a line\nand 2 * 3 snake_case_name **open", "<p>a line\nand 2 * 3 snake_case_name **open</p>"),
        (
            "<img src=x onerror=alert(1)><script>alert(1)</script>",
            "<p><img src=x onerror=alert(1)><script>alert(1)</script></p>",
        ),
    ] {
        assert_eq!(outline_of(&visit, text).await, expected, "{text:?}");
    }
    assert_eq!(visit.browser.eval("document.querySelectorAll('.markdown img, .markdown script').length").await, 0);
    visit.assert_no_browser_errors().await;
}

/// Runs a script with the page's module for Markdown; the result is what it returns.
async fn with_markdown_module(visit: &ChatPageSetup, script: &str) -> serde_json::Value {
    let whole = format!(
        "const done = arguments[arguments.length - 1];
         const module = (name) => import(document.querySelector('script[src$=\"/main.js\"]').src.replace('main.js', name));
         (async () => {{
           const {{ MarkdownText }} = await module('markdown.js');
           const {{ page }} = await module('page.js');
           {script}
         }})().then(done, (error) => done(String(error)));"
    );
    visit.browser.run_async(&whole).await
}

/// A page whose time grows with the square of a text would need hours for these texts.
#[tokio::test]
async fn long_answer_of_unclosed_markdown_marks_is_shown_completely() {
    let visit = ChatPageSetup::script().await;
    let script = r##"
        const size = 400000;
        const of = (mark) => mark.repeat(size / mark.length);
        const texts = [
          "#" + of(" ") + "a\rb", "# " + of("# ") + "a", "|\n" + of(" ") + "x-", "|\n" + of("-") + "x", of("["), of("!["),
          of("~") + "`", of("* ") + "x", "[a](" + of(" ") + "x", "[a](b" + of(" ") + "x", "[a](" + of("()") + "<",
          of("[a](b "), of("[a]("), "[" + of("\\a"), "http://" + of(".") + "x", of("http://["), of("**a "), of("_a "),
          of("*a **b ***c "), Array.from({ length: 800 }, (_, run) => "`".repeat(run + 1) + "a").join(""), of("\\"),
          "- a" + of("\n") + "- b", of("a\n"), of("|\n"), of("> "),
        ];
        return texts.map((text) => new MarkdownText(text).root.childNodes.length);"##;
    let blocks = with_markdown_module(&visit, script).await;
    let all_shown = blocks.as_array().is_some_and(|blocks| blocks.iter().all(|count| count.as_u64() > Some(0)));
    assert!(all_shown, "{blocks}");
}

#[tokio::test]
async fn streamed_answer_becomes_the_same_elements_as_a_whole_one_and_keeps_its_images() {
    let visit = ChatPageSetup::script().await;
    let script = r##"
        page.agent.images.data = true;
        const image = "![dot](data:image/png;base64,iVBORw0KGgo=)";
        const text = `# A\r\n\r\n- one ${image}\r\n- two\r\n\r\n1. x\n\n| a |\n|---|\n| b |\n\n${"word ".repeat(2000)}\n\nend`;
        const whole = new MarkdownText(text).root.innerHTML;
        const results = [];
        for (const size of [1, 7, 5000]) {
          const streamed = new MarkdownText();
          const images = new Set();
          for (let at = 0; at < text.length; at += size) {
            streamed.append(text.slice(at, at + size));
            streamed.root.querySelectorAll("img").forEach((one) => images.add(one));
          }
          streamed.end();
          results.push([streamed.root.innerHTML === whole, images.size]);
        }
        return results;"##;
    let results = with_markdown_module(&visit, script).await;
    assert_eq!(results, json!([[true, 1], [true, 1], [true, 1]]));
}

#[tokio::test]
async fn links_of_an_answer_lead_only_to_web_and_mail_addresses() {
    let visit = ChatPageSetup::script().await;
    let text = "[site](https://a.example/x) [mail](mailto:a@b.example) https://c.example. \
                [bad](javascript:alert(1)) [data](data:text/html,x) [relative](/console) <https://d.example>";
    visit.play(json!([[{"text": text}]])).await;
    visit.is("idle").await;
    let links = visit
        .browser
        .eval("[...document.querySelectorAll('.markdown a')].map(link => [link.href, link.rel, link.target])")
        .await;
    let rel = "noopener noreferrer nofollow ugc";
    let expected = ["https://a.example/x", "mailto:a@b.example", "https://c.example/", "https://d.example/"];
    assert_eq!(links, json!(expected.map(|href| [href, rel, "_blank"])));
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn images_of_an_answer_are_shown_only_if_the_agent_declares_them() {
    let pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let text = format!("![A dot]({pixel}) ![far](https://images.example/x.png)");
    let shown = "[...document.querySelectorAll('.markdown img')].map(image => image.alt)";
    let without = ChatPageSetup::to(TestAgentFolder::with_agent(SCRIPTED), BrowserSettings::default()).await;
    without.play(json!([[{"text": text}]])).await;
    without.is("idle").await;
    assert_eq!(without.browser.eval(shown).await, json!([]));
    assert!(without.transcript().await.contains("https://images.example/x.png"));

    let agent = format!("{SCRIPTED}\n[capabilities]\nimages = [\"data\"]\n");
    let visit = ChatPageSetup::to(TestAgentFolder::with_agent(&agent), BrowserSettings::default()).await;
    visit.play(json!([[{"text": text}]])).await;
    visit.is("idle").await;
    assert_eq!(visit.browser.eval(shown).await, json!(["A dot"]));
}

#[tokio::test]
async fn example_is_sent_when_pressed_and_examples_are_hidden_afterwards() {
    let examples = "examples = [\"Hello there\", { en = \"Help\", zh-CN = \"帮助\" }]\n";
    let reader = BrowserSettings { language: "zh-CN", ..BrowserSettings::default() };
    let visit = ChatPageSetup::to(TestAgentFolder::with_agent(&scripted(examples)), reader).await;
    let texts = visit.browser.eval("[...document.querySelectorAll('[data-example]')].map(it => it.textContent)").await;
    assert_eq!(texts, json!(["Hello there", "帮助"]));
    visit.browser.click("[data-example]").await;
    visit.wait_for_text("You said: Hello there").await;
    visit.is("idle").await;
    let hidden = "getComputedStyle(document.querySelector('.examples')).display === 'none'";
    assert_eq!(visit.browser.eval(hidden).await, true);
    visit.browser.click("#new-conversation").await;
    visit.browser.until(&format!("!({hidden})")).await;
    visit.assert_no_browser_errors().await;
}

#[tokio::test]
async fn panel_of_an_agent_with_hidden_tools_states_that_it_runs_its_tools_itself() {
    let hidden = "\n[[tool]]\nname = \"secret\"\ndescription = \"Runs.\"\nexpose = false\ninput = { type = \"object\" }\nrun = { command = [\"true\"] }\n";
    let told = "document.querySelector('.about section').innerText";
    let home = TestAgentFolder::with_agent(&format!("{SCRIPTED}{hidden}"));
    let visit = ChatPageSetup::to(home, BrowserSettings::default()).await;
    let panel = visit.browser.eval(told).await;
    assert!(panel.as_str().unwrap().contains("chooses and runs its tools itself"), "{panel}");
    let plain = ChatPageSetup::to(TestAgentFolder::with_agent(SCRIPTED), BrowserSettings::default()).await;
    let panel = plain.browser.eval(told).await;
    assert!(panel.as_str().unwrap().contains("uses no tools"), "{panel}");
}

#[tokio::test]
async fn unknown_address_gets_a_page_in_browsers_and_json_in_programs() {
    let home = TestAgentFolder::script();
    let server = home.start();
    let browser = Browser::open(BrowserSettings { language: "zh-CN", ..BrowserSettings::default() }).await;
    browser.go(&format!("{}/nowhere", server.url())).await;
    assert_eq!(browser.eval("document.querySelector('h1').innerText").await, "这个地址没有页面");
    let shown = browser.eval("document.body.innerText").await.as_str().unwrap().to_owned();
    assert!(shown.contains("nuncio explain not_found") && shown.contains("这个地址没有任何内容。"), "{shown}");
    assert_eq!(browser.eval("document.querySelector('details').open").await, false, "the English message is a detail");
    browser.click("[data-language=en]").await;
    browser.until("document.querySelector('h1').innerText === 'There is no page at this address'").await;
    let answer = reqwest::get(format!("{}/nowhere", server.url())).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/json");
}

#[tokio::test]
async fn failure_of_an_answer_is_in_chinese_with_the_english_message_as_a_detail() {
    let reader = BrowserSettings { language: "zh-CN", ..BrowserSettings::default() };
    let visit = ChatPageSetup::to(TestAgentFolder::script(), reader).await;
    visit.play(json!([[{"throw": "write `nuncio lint` first"}]])).await;
    visit.browser.until("document.querySelector('.note.wrong')").await;
    let told = visit.browser.eval("document.querySelector('.note.wrong').innerText").await;
    let told = told.as_str().unwrap();
    assert!(told.contains("智能体出错") && told.contains("brain_failed") && !told.contains("first"), "{told}");
    let detail = "document.querySelector('.note.wrong details').textContent";
    let detail = visit.browser.eval(detail).await.as_str().unwrap().to_owned();
    assert!(detail.contains("nuncio lint") && !detail.contains('`'), "{detail}");
}

#[tokio::test]
async fn agent_is_shown_in_the_language_of_the_reader() {
    let visit = ChatPageSetup::to(
        TestAgentFolder::hotel(),
        BrowserSettings { language: "zh-CN", ..BrowserSettings::default() },
    )
    .await;
    assert_eq!(visit.browser.eval("document.querySelector('h1').innerText").await, "豪华大酒店助手");
    let titles =
        visit.browser.eval("[...document.querySelectorAll('.about [data-tool] h3')].map(it => it.innerText)").await;
    assert_eq!(titles, json!(["查询空房", "预订客房", "查看预订", "取消预订"]));
    let meta = reqwest::get(format!("{}/meta", visit.server.aap_url())).await.unwrap().text().await.unwrap();
    let meta: serde_json::Value = serde_json::from_str(&meta).unwrap();
    assert_eq!(meta["agents"][0]["title"], "Grand Hotel Assistant");
}
