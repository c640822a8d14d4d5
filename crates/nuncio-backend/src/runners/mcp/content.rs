//! Converts the result of an MCP tool call to a tool output.
//!
//! Results: <https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result>

use nuncio_core::message::{Block, DESCRIBED_CONTENT_KEY};
use nuncio_engine::ports::runner::ToolOutput;
use rmcp::model::{ContentBlock, Resource, ResourceContents, ServerResult};
use serde_json::Value;

/// Failed MCP call with the server's message.
#[derive(Debug, PartialEq)]
pub(super) struct McpCallFailure {
    pub(super) text: String,
    /// Whether the failure may mean that the tool does not exist.
    pub(super) suspicious: bool,
}

/// Converts the response of an MCP server to a call.
pub(super) fn output(result: ServerResult) -> Result<ToolOutput, McpCallFailure> {
    let (content, structured, is_error) = match result {
        ServerResult::CallToolResult(result) => {
            (result.content.into_iter().map(block).collect(), result.structured_content, result.is_error == Some(true))
        }
        // The result has a content type that the SDK does not know.
        ServerResult::CustomResult(custom) => raw(custom.0)?,
        ServerResult::EmptyResult(_) => (Vec::new(), None, false),
        ServerResult::InputRequiredResult(_) => {
            return Err(refusal("the tool asks for more input, which cannot be given here"));
        }
        ServerResult::CreateTaskResult(_) => {
            return Err(refusal("the tool started a task of its own instead of answering"));
        }
        _ => return Err(refusal("the MCP server sent an answer of another kind")),
    };
    let output = ToolOutput { content, structured };
    if is_error {
        let text = output.message_content().text();
        return Err(refusal(if text.is_empty() { "the tool failed without giving a reason" } else { &text }));
    }
    Ok(output)
}

fn refusal(text: &str) -> McpCallFailure {
    McpCallFailure { text: text.to_owned(), suspicious: false }
}

type McpResultParts = (Vec<Block>, Option<Value>, bool);

/// Parses a result block by block, so that one unknown type does not affect the others.
fn raw(mut result: Value) -> Result<McpResultParts, McpCallFailure> {
    let Some(Value::Array(items)) = result.get_mut("content").map(Value::take) else {
        return Err(refusal("the MCP server answered with something that is not a result"));
    };
    let read = |item: Value| match serde_json::from_value::<ContentBlock>(item.clone()) {
        Ok(known) => block(known),
        Err(_) => Block::text(format!("[content of an unknown kind: {}]", brief(&item))),
    };
    let structured = result.get_mut("structuredContent").map(Value::take);
    Ok((items.into_iter().map(read).collect(), structured, result["isError"] == true))
}

fn brief(item: &Value) -> String {
    let kind = item.get("type").and_then(Value::as_str).unwrap_or("no type");
    kind.chars().take(80).collect()
}

fn block(content: ContentBlock) -> Block {
    match content {
        ContentBlock::Text(text) => Block::text(text.text),
        ContentBlock::Image(image) if is_mime(&image.mime_type) => {
            Block::image(format!("data:{};base64,{}", image.mime_type, image.data))
        }
        ContentBlock::Image(_) => Block::text("[an image without a valid type]"),
        ContentBlock::Audio(audio) => {
            let text = format!("[sound: {}, {}]", kind(Some(&audio.mime_type)), size(&audio.data));
            describing(Block::text(text), &ContentBlock::Audio(audio))
        }
        ContentBlock::Resource(embedded) => {
            let content = ContentBlock::Resource(embedded.clone());
            describing(resource(embedded.resource), &content)
        }
        ContentBlock::ResourceLink(link) => describing(Block::text(describe(&link)), &ContentBlock::ResourceLink(link)),
        _ => Block::text("[content of an unknown kind]"),
    }
}

/// A block that keeps the content which it describes, for clients that can show it.
fn describing(mut block: Block, content: &ContentBlock) -> Block {
    if let (Block::Text { extra, .. } | Block::Image { extra, .. }, Ok(content)) =
        (&mut block, serde_json::to_value(content))
    {
        extra.insert(DESCRIBED_CONTENT_KEY.to_owned(), content);
    }
    block
}

fn resource(resource: ResourceContents) -> Block {
    match resource {
        ResourceContents::TextResourceContents { text, .. } => Block::text(text),
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => match mime_type {
            Some(mime) if mime.starts_with("image/") && is_mime(&mime) => {
                Block::image(format!("data:{mime};base64,{blob}"))
            }
            mime => Block::text(format!("[file {uri}: {}, {}]", kind(mime.as_deref()), size(&blob))),
        },
        _ => Block::text("[a resource of an unknown kind]"),
    }
}

fn describe(link: &Resource) -> String {
    let name = link.title.as_ref().unwrap_or(&link.name);
    let about = link.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    format!("[{name}]({}){about}", link.uri)
}

/// Whether a text is a media type that is safe in a `data:` URL.
fn is_mime(text: &str) -> bool {
    let token =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b));
    text.split_once('/').is_some_and(|(kind, subtype)| token(kind) && token(subtype))
}

fn kind(mime: Option<&str>) -> &str {
    mime.filter(|mime| is_mime(mime)).unwrap_or("of an unknown type")
}

/// Approximate number of bytes behind a Base64 text.
fn size(base64: &str) -> String {
    format!("{} bytes", base64.trim_end_matches('=').len() * 3 / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(result: Value) -> Result<ToolOutput, McpCallFailure> {
        output(serde_json::from_value(result).unwrap())
    }

    #[test]
    fn every_mcp_content_type_becomes_a_block() {
        let output = read(json!({"content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png,evil"},
            {"type": "audio", "data": "AAAAAAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///a.bin", "mimeType": "application/zip", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "https://a/b", "name": "b", "description": "a thing"},
        ], "structuredContent": {"n": 1}}))
        .unwrap();
        let described = |text: &str, content: Value| {
            let extra = json!({"mcp_content": content}).as_object().unwrap().clone();
            Block::Text { text: text.to_owned(), extra }
        };
        let resource = |resource: Value| json!({"type": "resource", "resource": resource});
        let zip = json!({"uri": "file:///a.bin", "mimeType": "application/zip", "blob": "AAAA"});
        let link = json!({"type": "resource_link", "uri": "https://a/b", "name": "b", "description": "a thing"});
        assert_eq!(
            output.content,
            [
                Block::text("hello"),
                Block::image("data:image/png;base64,AAAA"),
                Block::text("[an image without a valid type]"),
                described(
                    "[sound: audio/wav, 6 bytes]",
                    json!({"type": "audio", "data": "AAAAAAAA", "mimeType": "audio/wav"})
                ),
                described("inside", resource(json!({"uri": "file:///a.txt", "text": "inside"}))),
                described("[file file:///a.bin: application/zip, 3 bytes]", resource(zip)),
                described("[b](https://a/b): a thing", link),
            ]
        );
        assert_eq!(output.message_content().blocks()[3], Block::text("[sound: audio/wav, 6 bytes]"));
        assert_eq!(output.structured, Some(json!({"n": 1})));
    }

    #[test]
    fn unknown_mcp_content_type_does_not_affect_other_blocks() {
        let output =
            read(json!({"content": [{"type": "hologram", "x": 1}, {"type": "text", "text": "hello"}]})).unwrap();
        assert_eq!(output.content, [Block::text("[content of an unknown kind: hologram]"), Block::text("hello")]);
    }

    #[test]
    fn mcp_error_result_becomes_a_failure_with_its_text() {
        let refused =
            read(json!({"content": [{"type": "text", "text": "no rooms left"}], "isError": true})).unwrap_err();
        assert_eq!(refused.text, "no rooms left");
        let refused = read(json!({"content": [], "isError": true})).unwrap_err();
        assert_eq!(refused.text, "the tool failed without giving a reason");
        assert!(read(json!({"something": "else"})).is_err());
    }
}
