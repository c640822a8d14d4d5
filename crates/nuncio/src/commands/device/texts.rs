//! The fixed texts of `nuncio device`, in English and Chinese. Errors keep their English message and code, which
//! `nuncio explain` has too.

use nuncio_device::tools::ConfinementSupport;

use crate::commands::language::{texts_by_language, user_language};

texts_by_language! { DeviceTexts {
    this_is: "This is {device}, a device of {person}.", "这是 {person} 的设备 {device}。";
    keys_are_in: "Its keys are in", "密钥保存在";
    encrypted_with: "They are encrypted with {source}.", "密钥的加密方式：{source}。";
    compare_there: "Compare on the device that invited it:", "请在发出邀请的设备上核对：";
    stop_and_start: "Stop it with Ctrl+C; start it again with `{command}`.", "按 Ctrl+C 停止；再次启动：`{command}`。";
    no_device_yet:
        "There is no device here yet. Enrol this machine at: {link}",
        "这里还没有设备。请在此页面上将这台机器设为你的设备：{link}";
    answers_at: "{device} of {person} answers at {url}.", "{person} 的设备 {device} 已连接 {url}。";
    one_time_link: "One-time link to its pages: {link}", "页面的一次性链接：{link}";
    data_encrypted_with: "Its stored data is encrypted with {source}.", "存储数据的加密方式：{source}。";
    shares_no_folder:
        "It shares no folder: `--folder DIR` lets agents that you allow read the files there.",
        "它没有共享文件夹：加上 `--folder DIR` 后，你允许的智能体可以读取其中的文件。";
    asks_again: "{agent} changed and asks again: {command}", "{agent} 有变动，再次请求授权：{command}";

    // Sources of the storage key.
    no_source: "nothing yet", "尚未加密";
    keyring: "a key in the system's keyring", "系统密钥环中的密钥";
    passphrase_source: "a passphrase", "口令";
    key_file: "the key file {file}", "密钥文件 {file}";
    key_file_inside:
        "the key file {file}, in the same folder: anyone who copies the folder can read the data",
        "密钥文件 {file}（在同一文件夹中，复制该文件夹的人都能读取数据）";
    keyring_unused:
        "The keyring is not used: {why}; a key file is used instead",
        "未使用密钥环：{why}；改用密钥文件";
    previous_key_left: "The previous key could not be removed: {why}", "无法删除旧密钥：{why}";
    passphrase: "Passphrase: ", "口令：";
    once_more: "Once more: ", "再次输入：";

    // Agents.
    no_agents:
        "There are no agents yet. `{command}` shows what an agent requests; AGENT is its name or id on the server.",
        "还没有智能体。用 `{command}` 查看某个智能体请求的权限；AGENT 是它在服务器上的名称或 id。";
    agent_heading: "AGENT", "智能体";
    name_heading: "NAME", "名称";
    allowed_heading: "ALLOWED", "已允许";
    may_now: "{agent} is now allowed only this: {scopes}", "{agent} 现在只能做以下各项：{scopes}";
    asks_for: "{agent} ({id}) asks for:", "{agent}（{id}）请求以下权限：";
    scope_heading: "SCOPE", "权限";
    sensitivity_heading: "SENSITIVITY", "敏感度";
    state_heading: "STATE", "状态";
    meaning_heading: "WHAT IT MEANS", "含义";
    suspended: "suspended", "已暂停";
    allowed: "allowed", "已允许";
    low: "low", "低";
    medium: "medium", "中";
    high: "high", "高";
    nothing_changed:
        "Nothing was changed. Name all scopes that the agent may use from now on, or use --all-low.",
        "没有更改任何权限。请写出智能体今后可以使用的全部权限，或使用 --all-low。";
    may_nothing: "{agent} is now allowed nothing on this device.", "{agent} 现在不能在这里做任何事。";
    number_why:
        "The agent's owner sees the same number unless someone intercepts your messages.",
        "如果没有人截取消息，智能体的所有者会看到相同的数字。";
    keys_changed: "The keys of {agent} have changed:", "{agent} 的密钥变了：";
    number_before: "before", "之前";
    number_now: "now", "现在";
    ask_owner:
        "Ask the agent's owner through another channel whether they see the current number.",
        "请通过其他途径询问智能体的所有者是否看到现在的数字。";
    owner_sees: "They see it with:", "对方用此命令查看：";
    do_they: "Do they?", "对方看到的一致吗？";
    keys_accepted: "The new keys of {agent} are accepted.", "已接受 {agent} 的新密钥。";

    // The person's devices.
    device_heading: "DEVICE", "设备";
    standing_heading: "STANDING", "状态";
    this_one: "this one", "本设备";
    no_keys: "no keys yet", "尚无密钥";
    trusted: "trusted", "已信任";
    waiting: "waiting", "等待确认";
    own_fingerprint: "Fingerprint of this device, for comparison:", "本设备的指纹，供核对：";
    waits_for_you: "{device} waits for your confirmation.", "{device} 等待你确认。";
    if_yours: "If it is yours, its own screen shows the same:", "如果它是你的设备，它的屏幕上会显示相同的内容：";
    then: "then:", "然后：";
    number: "number", "数字";
    key: "key", "指纹";
    can_join_until: "Your other device can join until {time} with this link:", "在 {time} 之前，你的另一台设备可以用此链接加入：";
    run_there:
        "On the other device, run `nuncio device join LINK`;\n`--folder DIR` also shares a folder with agents that you allow.",
        "在另一台设备上运行 `nuncio device join LINK`；\n加上 `--folder DIR` 还会把一个文件夹共享给你允许的智能体。";
    then_compare:
        "Then compare the number on both screens; here it is shown by:",
        "然后核对两台设备上的数字；在这里用以下命令查看：";
    is_yours: "{device} is yours: what it signed counts here.", "{device} 是你的设备：它授予的权限在这里有效。";
    says_yours: "{device} says that it is yours.", "{device} 自称是你的设备。";
    must_show: "Its own screen must show:", "它的屏幕上应显示：";
    is_it_same: "Is it the same?", "两者一致吗？";
    no_longer_acts: "{device} no longer acts for you.", "{device} 不再代表你。";
    grants_stay: "Permissions that you granted on it stay valid.", "你在它上面授予的权限仍然有效。";
    kept_at: "The keys of {device} are kept at {url}.", "{device} 的密钥已备份到 {url}。";
    also_in_file: "They are in {file} too.", "同时保存在 {file} 中。";
    keep_apart:
        "The backup can be opened only with the passphrase; keep the two apart.",
        "没有口令谁也打不开备份；请将两者分开保管。";
    vouches: "{device} endorses this device.", "{device} 已为本设备担保。";
    grants_valid: "Permissions that you granted on it are valid here.", "你在它上面授予的权限在这里有效。";
    if_lost: "if it is lost:", "如果它已丢失：";

    // Record and status.
    one_exported: "1 entry is verified and is in {file}.", "已验证 1 条记录，保存在 {file} 中。";
    exported: "{count} entries are verified and are in {file}.", "已验证 {count} 条记录，保存在 {file} 中。";
    when_heading: "WHEN", "时间";
    tool_heading: "TOOL", "工具";
    outcome_heading: "WHAT BECAME OF IT", "结果";
    one_verified: "1 entry, verified.", "共 1 条记录，已验证。";
    all_verified: "{count} entries, all verified.", "共 {count} 条记录，均已验证。";
    person: "person", "用户";
    device: "device", "设备";
    url: "url", "服务器";
    home: "home", "文件夹";
    agents: "agents", "智能体";
    audit: "audit", "记录";
    programs: "programs", "程序";
    sealed_by: "sealed by", "加密方式";
    server: "server", "连接";
    connected: "connected", "已连接";
    connecting: "connecting", "正在连接";
    unreachable: "unreachable", "无法连接";
    removed: "removed", "已移除";
    not_running:
        "not running: no call is answered; start it with `nuncio device run{home_flag}`",
        "未运行：不会响应任何调用；请用 `nuncio device run{home_flag}` 启动";
    unreachable_advice:
        "The server cannot be reached, so agents get no answer from this device. Check the network, or ask the operator of the server.",
        "这台设备连不上服务器，智能体得不到它的回应。请检查网络，或联系服务器的管理员。";
    removed_advice:
        "This device was removed from your account: agents can no longer use it. Ask the operator of the server if you did not expect this. To use this machine again, get a new invite and join in another folder: nuncio device join LINK --home DIR",
        "这台设备已从你的账户中移除，智能体不能再使用它。如果这不是你的意思，请联系服务器的管理员。要重新使用这台电脑，请获取新的邀请，并用另一个文件夹加入：nuncio device join LINK --home DIR";

    // Confinement of programs; in English as `ConfinementSupport` displays it.
    confined:
        "confined to the files and networks listed in their tool files",
        "只能访问其工具文件中列出的文件和网络";
    confined_in_files:
        "confined to the files listed in their tool files, but not in the network",
        "只能访问其工具文件中列出的文件，但网络访问不受限制";
    confined_in_network:
        "confined in the network, but not in files, since this system has no Landlock",
        "网络访问受限制，但文件访问不受限制，因为本系统没有 Landlock";
    not_confined: "not confined, since this system has no Landlock", "不受限制，因为本系统没有 Landlock";

    // Questions in the terminal.
    timed_out: "{agent} {tool}: not answered in time.", "{agent} {tool}：未在限定时间内答复。";
    answered_elsewhere:
        "{agent} {tool}: no answer is needed here any more. It was answered on this device's pages or on another device, or the permission was revoked.",
        "{agent} {tool}：无需再在此答复。已在本设备的页面或另一台设备上答复，或相关权限已撤销。";
    too_soon: "Ignored: the answer came too soon after the question.", "已忽略：问题刚显示就收到了回答。";
    first_contact: "known by its keys since first contact", "凭它与你首次联系时出示的密钥";
    by_did: "its keys are confirmed by {did}", "它的密钥由 {did} 担保";
    wants: "{agent} ({id}) wants to run {tool}", "{agent}（{id}）想要运行 {tool}";
    verified: "verified", "确认方式";
    for_app: "for app ", "应用    ";
    talk: "talk    ", "对话    ";
    single_call: "a single call, outside any conversation", "单次调用，不属于任何对话";
    unnamed_key_of:
        "an app with a key created on {date}, which has no name",
        "使用 {date} 创建的密钥的应用（密钥没有名称）";
    unnamed_key: "an app whose key has no name", "密钥没有名称的应用";
    own_server: "none: the agent's own server", "无：智能体自己的服务器";
    person_directly: "none: {person} directly", "无：{person} 直接调用";
    conversation_with: "a conversation with {agent}", "与 {agent} 的对话";
    it_says: "it says ", "说明    ";
    under: "under   ", "权限    ";
    sensitivity: "{scope} ({level} sensitivity)", "{scope}（敏感度：{level}）";
    with: "with", "实际参数";
    allow_once: "Allow this once?", "允许这一次吗？";
    allow_day_app:
        "y: once; d: for 24 hours in this app and conversation\nAllow it?",
        "y：仅允许这一次；d：在这个应用的这个对话中允许 24 小时\n允许吗？";
    allow_day_single:
        "y: once; d: for 24 hours for single calls of this app\nAllow it?",
        "y：仅允许这一次；d：允许这个应用的单次调用 24 小时\n允许吗？";
    allow_day:
        "y: once; d: for 24 hours in your conversation with this agent\nAllow it?",
        "y：仅允许这一次；d：在你与这个智能体的对话中允许 24 小时\n允许吗？";
    seconds_left: "[{answers}, {seconds} seconds]", "[{answers}，剩余 {seconds} 秒]";
} }

impl DeviceTexts {
    /// The texts in the language of the user's environment.
    pub(super) fn of_environment() -> Self {
        Self::of(user_language())
    }

    /// The wording of a value that the JSON output has as it is; a value without one stays.
    pub(super) fn value(&self, value: &str) -> String {
        match value {
            "this" => self.this_one,
            "no_keys" => self.no_keys,
            "trusted" => self.trusted,
            "waiting" => self.waiting,
            "removed" => self.removed,
            "connected" => self.connected,
            "connecting" => self.connecting,
            "unreachable" => self.unreachable,
            "low" => self.low,
            "medium" => self.medium,
            "high" => self.high,
            other => other,
        }
        .to_owned()
    }
}

/// Which restrictions this system can enforce on programs.
pub(super) const fn confinement_text(texts: &DeviceTexts, confinement: ConfinementSupport) -> &'static str {
    match (confinement.files, confinement.network) {
        (true, true) => texts.confined,
        (true, false) => texts.confined_in_files,
        (false, true) => texts.confined_in_network,
        (false, false) => texts.not_confined,
    }
}

/// Fills in the values of a text's placeholders.
pub(super) fn fill(text: &str, values: &[(&str, &dyn std::fmt::Display)]) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), &value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confinement_is_described_in_the_language_of_the_user() {
        for (files, network) in [(true, true), (true, false), (false, true), (false, false)] {
            let confinement = ConfinementSupport { files, network, signals: false };
            assert_eq!(confinement_text(&DeviceTexts::ENGLISH, confinement), confinement.to_string());
            let chinese = confinement_text(&DeviceTexts::CHINESE, confinement);
            assert!(chinese.contains("限制") || chinese.contains("只能"), "{chinese}");
        }
    }

    #[test]
    fn sensitivity_has_one_name_in_each_language() {
        let english = format!("{:?}", DeviceTexts::ENGLISH).to_lowercase();
        assert!(!english.contains("stake") && !english.contains("risk"), "{english}");
        let chinese = format!("{:?}", DeviceTexts::CHINESE);
        assert!(!chinese.contains("风险"), "{chinese}");
    }

    #[test]
    fn every_text_has_the_same_placeholders_in_both_languages() {
        let placeholders = |texts: &DeviceTexts| -> Vec<Vec<String>> {
            // The debug output lists the fields in their order.
            let fields = format!("{texts:#?}");
            let names = |line: &str| {
                let mut names: Vec<_> =
                    line.split('{').skip(1).filter_map(|rest| Some(rest.split_once('}')?.0.to_owned())).collect();
                names.sort();
                names
            };
            fields.lines().filter(|line| line.starts_with("    ")).map(names).collect()
        };
        assert_eq!(placeholders(&DeviceTexts::ENGLISH), placeholders(&DeviceTexts::CHINESE));
    }
}
