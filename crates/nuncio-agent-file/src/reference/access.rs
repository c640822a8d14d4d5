//! Keys of `[[scope]]`, `[[mcp]]`, `[secrets]` and `[allow]`.

use super::AgentFileValueType::{
    Command, Flag, NamedTables, Sections, Table, Templates, Text, TextByLanguage, Texts, WebAddress, Word,
};
use super::{DocumentedAgentFileKey, key};
use nuncio_core::policy::Protocol::{A2h, Aap, Anp, Skill};

pub(super) const KEYS: &[DocumentedAgentFileKey] = &[
    key(
        "scope",
        &[Sections],
        "",
        "A permission. Callers get it with `nuncio grant create`, with a key (`nuncio key create --scope`) or with an access token; people give it to an agent on their device.",
        "一项权限。调用方通过 `nuncio grant create`、密钥（`nuncio key create --scope`）或访问令牌取得；用户在自己的设备上授予智能体。",
    )
    .seen_by(&[Skill, A2h]),
    key(
        "scope.id",
        &[Text],
        r#""notes:write""#,
        "Id of the permission, unique in the file: 1 to 128 letters, digits, '_', '-', '.' and ':'.",
        "权限的 id，在文件中唯一：1 到 128 个字母、数字、“_”、“-”、“.”和“:”。",
    )
    .required()
    .seen_by(&[Skill, A2h]),
    key(
        "scope.label",
        &[TextByLanguage],
        r#"{ en = "Write notes", zh-CN = "写笔记" }"#,
        "Name of the permission for people.",
        "显示给人看的权限名称。",
    )
    .required()
    .seen_by(&[Skill, A2h]),
    key(
        "scope.description",
        &[TextByLanguage],
        r#"{ en = "Adds to your notes.", zh-CN = "添加到你的笔记。" }"#,
        "What the permission allows, for the person who is asked.",
        "权限允许做什么，显示给被询问的用户。",
    )
    .default_text("the label", "与 label 相同")
    .seen_by(&[A2h]),
    key(
        "scope.sensitivity",
        &[Word(&["low", "medium", "high"])],
        r#""medium""#,
        "How sensitive the permission is. Calls under a \"high\" scope need approval: by the app's own user if the app \
         acts for one (on this machine, or with a key), otherwise by an operator (`nuncio approve`).",
        "权限的敏感度。\"high\" 权限下的调用需要批准：应用代表自己的用户时（在本机上，或持有密钥），由该用户批准，\
         否则由管理员批准（`nuncio approve`）。",
    )
    .required()
    .seen_by(&[Anp, A2h]),
    key(
        "scope.label_i18n_key",
        &[Text],
        r#""agent.scope.notes_write.label""#,
        "Translation key of the label: up to 200 letters, digits, '_', '-' and '.'.",
        "label 的翻译键：最多 200 个字母、数字、“_”、“-”和“.”。",
    )
    .default_text("derived from the id", "由 id 得出")
    .seen_by(&[A2h]),
    key(
        "scope.description_i18n_key",
        &[Text],
        r#""agent.scope.notes_write.description""#,
        "Translation key of the description.",
        "description 的翻译键。",
    )
    .default_text("derived from the id", "由 id 得出")
    .seen_by(&[A2h]),
    key(
        "mcp",
        &[Sections],
        "",
        "An MCP server whose tools the agent uses.",
        "提供工具的 MCP 服务器。",
    ),
    key(
        "mcp.name",
        &[Text],
        r#""files""#,
        "Name of the server, unique in the file: 1 to 64 letters, digits, '_' and '-'.",
        "服务器的名称，在文件中唯一：1 到 64 个字母、数字、“_”和“-”。",
    )
    .required(),
    key(
        "mcp.command",
        &[Command],
        r#"["nuncio", "demo", "hotel"]"#,
        "The program and its arguments, for a server on standard input and output. It is confined.",
        "程序及其参数，用于通过标准输入输出通信的服务器；在受限环境中运行。",
    )
    .one_of(),
    key(
        "mcp.env",
        &[Templates],
        r#"{ NOTES_KEY = "{{ secrets.NOTES_KEY }}" }"#,
        "Environment variables of the program.",
        "程序的环境变量。",
    )
    .only_with("command"),
    key("mcp.url", &[WebAddress], r#""https://mcp.example.com/mcp""#, "Address of a server over HTTP.", "HTTP 服务器的地址。")
        .one_of(),
    key(
        "mcp.headers",
        &[Templates],
        r#"{ Authorization = "Bearer {{ secrets.NOTES_KEY }}" }"#,
        "Headers of every request to the server.",
        "发送给服务器的请求头。",
    )
    .only_with("url"),
    key(
        "mcp.import",
        &[Flag, Texts],
        "true",
        "true takes over all tools of the server, a list only the named ones.",
        "true 导入服务器的全部工具，列表只导入列出的工具。",
    )
    .default("false")
    .seen_by(&[Aap, Anp]),
    key(
        "mcp.scope",
        &[Text],
        r#""notes:write""#,
        "The permission that callers of the imported tools need: the id of a [[scope]].",
        "调用导入的工具需要的权限，即某个 [[scope]] 的 id。",
    )
    .default_text("callers need no permission", "调用方无需权限")
    .only_with("import"),
    key(
        "mcp.expose",
        &[Flag],
        "false",
        "Whether apps and other agents see the imported tools and may call them.",
        "应用和其他智能体能否看到并调用导入的工具。",
    )
    .default("true")
    .only_with("import")
    .seen_by(&[Aap, Anp]),
    key(
        "mcp.human_authorization",
        &[Flag],
        "true",
        "Whether an operator must approve each call of the imported tools.",
        "每次调用导入的工具是否须经管理员批准。",
    )
    .default("false")
    .only_with("import")
    .seen_by(&[Anp]),
    key(
        "secrets",
        &[NamedTables],
        r#"{ NOTES_KEY = { env = "NOTES_KEY" } }"#,
        "Where each secret comes from. Its name (1 to 64 letters, digits and '_') is used in templates as {{ secrets.NAME }}; the value is never written into the file.",
        "每个机密的来源。名称为 1 到 64 个字母、数字和“_”，在模板中写作 {{ secrets.NAME }}；值不写在文件里。",
    ),
    key("secrets.*.env", &[Text], r#""NOTES_KEY""#, "Environment variable of the server that holds the secret.", "存放机密的服务器环境变量。")
        .one_of(),
    key(
        "secrets.*.file",
        &[Text],
        r#""notes.key""#,
        "File that holds the secret; the path starts at the agent file's folder.",
        "存放机密的文件，路径相对于智能体文件所在目录。",
    )
    .one_of(),
    key(
        "allow",
        &[Table],
        "",
        "What the agent's programs may use beyond its folder: paths from the agent file's folder, from / or from ~/.",
        "智能体的程序除所在目录外还能使用什么：路径相对于智能体文件所在目录，或以 / 或 ~/ 开头。",
    ),
    key("allow.read", &[Texts], r#"["~/notes"]"#, "Files and folders that programs may read.", "程序可以读取的文件和目录。"),
    key(
        "allow.write",
        &[Texts],
        r#"["/srv/exports"]"#,
        "Files and folders that programs may read and change.",
        "程序可以读取和修改的文件和目录。",
    ),
    key(
        "allow.unix",
        &[Flag],
        "true",
        "Whether programs may use Unix sockets. It lifts the confinement, because services behind sockets act for any program.",
        "程序能否使用 Unix 套接字。这会解除限制，因为套接字背后的服务会替任何程序执行操作。",
    )
    .default("false"),
];
