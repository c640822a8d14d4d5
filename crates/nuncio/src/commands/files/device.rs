//! The start with tools that run on a person's device.

use super::sections::GeneratedAgentParts;

/// Tools that `nuncio device run` has without further configuration. `data_option` selects the data directory in the
/// commands of what to do next.
pub(super) fn sections(data_option: &str) -> GeneratedAgentParts {
    GeneratedAgentParts {
        about: " that acts on a person's device: the person installs Nuncio, allows each permission, and is asked\n# \
                before sensitive calls"
            .to_owned(),
        description: "Reads files on your device and shows notifications there, if you allow it.".to_owned(),
        help:
            "I can read files in the folders that you share, and show notifications on your screen. Say, for example, \
               \"read notes.txt\" or \"remind me to call Ada\"."
                .to_owned(),
        next: vec![format!(
            "nuncio user invite NAME{data_option}, while it is served: a link with which a person adds their device"
        )],
        sections: SCOPES.to_owned(),
        tools: TOOLS.to_owned(),
        names: vec!["read_file".to_owned(), "send_notification".to_owned()],
        intents: INTENTS.to_owned(),
        ..GeneratedAgentParts::default()
    }
}

/// The device's own tool under `filesystem:read` reads files and lists folders.
const SCOPES: &str = r#"
# What people allow. Their device asks them before a `medium` permission is used, and each time before a `high` one.
[[scope]]
id = "filesystem:read"
label = { en = "Read files in folders that you share", zh-CN = "读取你共享的文件夹中的文件" }
description = { en = "Opens files that you ask about, and lists folders.", zh-CN = "打开你询问的文件，列出文件夹内容。" }
sensitivity = "medium"

[[scope]]
id = "notification:send"
label = { en = "Show notifications", zh-CN = "显示通知" }
description = { en = "Shows a notification on your screen.", zh-CN = "在你的屏幕上显示一条通知。" }
sensitivity = "low"
"#;

const INTENTS: &str = r#"
[[intent]]
name = "list"
keywords = ["list", "what files", "which files"]
patterns = [
    '(?i)\b(?:list|show|what|which)\b.*\b(?:files|folder)\b(?:.*\b(?:in|of)\s+[\x22\x27]?(?<path>[^\s\x22\x27?!]+))?',
]
tool = "read_file"
answer = '{% if result.entries is defined %}{{ result.entries | join("\n") }}{% else %}{{ result.content }}{% endif %}'
failure = "I could not list it: {{ error }}"

[[intent.slot]]
name = "path"
type = "text"
default = "."
remember = false

[[intent]]
name = "read"
keywords = ["read", "open", "show me"]
patterns = [
    # A name with spaces is in quotes.
    '(?i)\b(?:read|open|list|show(?:\s+me)?|what(?:\x27s|\s+is)\s+in)\s+(?:(?:me|the|my|file|folder|called|named)\s+)*[\x22\x27](?<path>[^\x22\x27]+)[\x22\x27]',
    '(?i)\b(?:read|open|list|show(?:\s+me)?|what(?:\x27s|\s+is)\s+in)\s+(?:(?:me|the|my|file|folder|called|named)\s+)*[\x22\x27]?(?<path>[^\s\x22\x27?!]+)',
]
tool = "read_file"
answer = '{% if result.entries is defined %}{{ result.entries | join("\n") }}{% else %}{{ result.content }}{% endif %}'
failure = "I could not read it: {{ error }}"

[[intent.slot]]
name = "path"
type = "text"
ask = "Which file?"
remember = false

[[intent]]
name = "remind"
keywords = ["remind", "notify"]
patterns = ['(?i)\b(?:remind me to|notify me:?)\s+(?<body>.+)']
tool = "send_notification"
answer = "It is on your screen."
failure = "I could not show it: {{ error }}"

[[intent.slot]]
name = "body"
type = "text"
ask = "What should it say?"
remember = false
"#;

const TOOLS: &str = r#"
[[tool]]
name = "read_file"
title = "Read a file"
description = "Reads a file in the folders that the person shares, or lists such a folder."
scope = "filesystem:read"
run = { device = true }

[tool.input]
type = "object"
required = ["path"]
additionalProperties = false

[tool.input.properties]
path = { type = "string", description = "Path within the shared folders, such as notes.txt, or . for the folder itself." }

[[tool]]
name = "send_notification"
title = "Show a notification"
description = "Shows a notification on the person's screen."
scope = "notification:send"
run = { device = true }

[tool.input]
type = "object"
required = ["body"]
additionalProperties = false

[tool.input.properties]
title = { type = "string" }
body = { type = "string" }
"#;
