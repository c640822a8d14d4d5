//! Chinese texts of the errors that a person meets on the pages: in a conversation, and at an address opened in a browser.

use nuncio_core::ErrorCode;

/// What an error means, in Chinese; `None` for codes whose English message is shown.
pub(crate) fn chinese(code: ErrorCode) -> Option<&'static str> {
    Some(match code {
        ErrorCode::BadJson
        | ErrorCode::BadRequest
        | ErrorCode::BadHeader
        | ErrorCode::BadCursor
        | ErrorCode::BadEventId => "请求内容有误。",
        ErrorCode::BadOption => "智能体没有这个选项，或者选项不接受这个值。请检查“设置”后重试。",
        ErrorCode::BadAnswer => "答复与等待中的工具调用不符，没有运行任何工具。请重新加载页面。",
        ErrorCode::BadImage => "图片的类型或大小不符合要求。",
        ErrorCode::UnknownTool => "智能体没有这个工具。请重新加载页面。",
        ErrorCode::CapabilityMissing => "这个智能体不支持此功能。",
        ErrorCode::Unauthorized => "密钥缺失、无效或已被吊销。",
        ErrorCode::KeyExpired => "密钥已过期，请向服务器管理员索取新的密钥。",
        ErrorCode::CrossOriginRefused => "拒绝来自其他网站的请求。",
        ErrorCode::HostRefused => "拒绝使用该主机名的请求。",
        ErrorCode::ForwardedRefused => "经代理转发的请求需要提供凭据。",
        ErrorCode::NotAdmitted | ErrorCode::PermissionDenied => "你没有使用此功能的权限，请联系服务器管理员。",
        ErrorCode::NotFound => "这个地址没有任何内容。",
        ErrorCode::UnknownAgent => "这里没有该智能体。",
        ErrorCode::SkillNotFound => "这里没有该技能。",
        ErrorCode::SessionNotFound => "这个对话已不存在，或属于另一个密钥。",
        ErrorCode::TurnNotFound => "没有这一轮对话。",
        ErrorCode::TurnRunning => "智能体还在回答上一条消息，请等它答完再发送。",
        ErrorCode::HistoryNotOffered => "这个智能体不提供历史消息。",
        ErrorCode::MethodNotAllowed => "这个地址不支持此请求方法。",
        ErrorCode::BodyTooLarge => "发送的内容过大。",
        ErrorCode::HeadTooLarge => "请求头过大。",
        ErrorCode::UnsupportedMediaType => "请求正文的格式不受支持。",
        ErrorCode::IdempotencyMismatch => "这条消息与之前发送的内容不同，请重新发送。",
        ErrorCode::RateLimited => "请求过于频繁，请稍后重试。",
        ErrorCode::RequestTimeout => "未能及时收到完整的请求，请重试。",
        ErrorCode::ToolNotFound => "没有该工具。",
        ErrorCode::ScopeNotGranted => "尚未授予所需的权限。",
        ErrorCode::ToolBusy => "工具正忙，请稍后重试。",
        ErrorCode::ToolTimeout => "工具未能及时完成。",
        ErrorCode::ToolFailed => "工具运行失败。",
        ErrorCode::ToolUnavailable => "工具目前不可用。",
        ErrorCode::EndpointUnreachable => "智能体所用的服务无法连接，请稍后重试。",
        ErrorCode::BrainFailed => "智能体出错，无法继续。已完成的步骤仍然保留，可以重新发送消息。",
        ErrorCode::TurnDeadline => "这次回答超过了时间限制，已被终止。",
        ErrorCode::TooManySteps => "这次回答的步骤过多，已被终止。",
        ErrorCode::TurnTooLarge => "这次回答的内容过大，已被终止。",
        ErrorCode::Interrupted => "服务器在回答期间停止过，这次回答没有完成。请重新发送消息。",
        ErrorCode::QuotaExceeded => "存储空间已用尽，没有任何改动。",
        ErrorCode::LimitReached => "数量已达上限。",
        ErrorCode::ServerBusy | ErrorCode::QueueFull | ErrorCode::ComputationQueueFull => "服务器繁忙，请稍后重试。",
        ErrorCode::ShuttingDown => "服务器正在停止，请稍后重试。",
        ErrorCode::StoreUnavailable | ErrorCode::DiskFull => "服务器暂时无法保存数据，请稍后重试。",
        ErrorCode::Internal => "服务器内部错误。",
        _ => return None,
    })
}
