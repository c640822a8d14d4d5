//! Keys of `[brain]`.

use super::AgentFileValueType::{Command, Number, Table, Template, Templates, Text, WebAddress, WholeNumber, Word};
use super::{DocumentedAgentFileKey, key};

pub(super) const KEYS: &[DocumentedAgentFileKey] = &[
    key(
        "brain",
        &[Table],
        "",
        "The brain decides what the agent says and which tools it calls.",
        "brain 决定智能体说什么、调用哪些工具。",
    )
    .default_text("a rules brain", "rules brain"),
    key(
        "brain.kind",
        &[Word(&["rules", "script", "model", "process", "aap"])],
        r#""rules""#,
        "\"rules\" matches messages with the [[intent]] sections, \"model\" asks a language model, \"process\" runs a program of yours, \"aap\" asks an agent on another AAP server, \"script\" plays scripts from the user's message, for tests.",
        "\"rules\" 用 [[intent]] 匹配消息；\"model\" 调用语言模型；\"process\" 运行你自己的程序；\"aap\" 转发给另一个 AAP 服务器上的智能体；\"script\" 执行用户消息中的脚本，用于测试。",
    )
    .required(),
    key(
        "brain.fallback",
        &[Template],
        r#""I can greet you and tell the time.""#,
        "The answer to a message that no intent matches.",
        "没有意图匹配时的回答。",
    )
    .default_text("a sentence that lists the intents with a tool", "一句列出带工具的意图的话")
    .only_if("kind", &["rules"]),
    key(
        "brain.provider",
        &[Word(&["openai", "anthropic", "gemini", "ollama", "openrouter", "deepseek", "mistral", "groq"])],
        r#""anthropic""#,
        "Provider of the model. \"openai\" with base_url is any compatible server.",
        "模型的提供商。\"openai\" 加上 base_url 可用于任何兼容的服务器。",
    )
    .required()
    .only_if("kind", &["model"]),
    key("brain.model", &[Text], r#""claude-sonnet-4-5""#, "The provider's name of the model.", "提供商对该模型的命名。")
        .required()
        .only_if("kind", &["model"]),
    key(
        "brain.base_url",
        &[WebAddress],
        r#""http://localhost:8080/v1""#,
        "Address of the model's interface.",
        "模型接口的地址。",
    )
    .default_text("the provider's own", "提供商的地址")
    .only_if("kind", &["model"]),
    key(
        "brain.key",
        &[Text],
        r#""MODEL_KEY""#,
        "Name of the secret in [secrets] that holds the key for the model or the other server.",
        "[secrets] 中的机密名称，内容是模型或另一台服务器的密钥。",
    )
    .only_if("kind", &["model", "aap"]),
    key(
        "brain.instructions",
        &[Template],
        r#""You are at the desk of a hotel.""#,
        "The system prompt of the model.",
        "模型的系统提示词。",
    )
    .only_if("kind", &["model"]),
    key("brain.temperature", &[Number(0.0, 2.0)], "0.2", "Sampling temperature.", "采样温度。")
        .default_text("the provider's", "由提供商决定")
        .only_if("kind", &["model"]),
    key(
        "brain.max_tokens",
        &[WholeNumber(1, 1_000_000)],
        "2048",
        "Longest answer of the model, in tokens.",
        "模型回答的最大长度，单位 token。",
    )
    .default_text("the provider's; 8192 for Anthropic", "由提供商决定；Anthropic 为 8192")
    .only_if("kind", &["model"]),
    key(
        "brain.window_tokens",
        &[WholeNumber(1_000, 100_000_000)],
        "32000",
        "How much history the model gets, at four bytes per token. For Chinese set about half of the model's window.",
        "发送给模型的历史长度，每 token 按四字节计算。中文对话建议设为模型窗口的一半左右。",
    )
    .default_text("100000; 8000 for Ollama", "100000；Ollama 为 8000")
    .only_if("kind", &["model"]),
    key(
        "brain.options",
        &[Table],
        "",
        "Options with which a session may choose another model, temperature or key.",
        "对话可以用哪些选项改变模型、温度或密钥。",
    )
    .only_if("kind", &["model"]),
    key("brain.options.model", &[Text], r#""model""#, "Name of the [[option]] that replaces model.", "替换 model 的 [[option]] 名称。"),
    key(
        "brain.options.temperature",
        &[Text],
        r#""temperature""#,
        "Name of the [[option]] that replaces temperature.",
        "替换 temperature 的 [[option]] 名称。",
    ),
    key(
        "brain.options.key",
        &[Text],
        r#""own_key""#,
        "Name of the [[option]] of type \"secret\" that replaces key.",
        "替换 key 的 [[option]] 名称，其类型须为 \"secret\"。",
    ),
    key(
        "brain.command",
        &[Command],
        r#"["python3", "brain.py"]"#,
        "The program and its arguments, started in the agent's folder without a shell.",
        "程序及其参数，在智能体目录中启动，不经过 shell。",
    )
    .required()
    .only_if("kind", &["process"]),
    key(
        "brain.env",
        &[Templates],
        r#"{ NOTES_KEY = "{{ secrets.NOTES_KEY }}" }"#,
        "Environment variables of the program.",
        "程序的环境变量。",
    )
    .only_if("kind", &["process"]),
    key(
        "brain.url",
        &[WebAddress],
        r#""https://agents.example.com/aap""#,
        "Base address of the other server's AAP interface.",
        "另一台服务器的 AAP 接口地址。",
    )
    .required()
    .only_if("kind", &["aap"]),
    key("brain.agent", &[Text], r#""hotel""#, "Name of the agent on the other server.", "另一台服务器上的智能体名称。")
        .default_text("the first agent of that server", "该服务器上的第一个智能体")
        .only_if("kind", &["aap"]),
];
