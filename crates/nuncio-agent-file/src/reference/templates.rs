//! Variables and filters of templates.

use super::BilingualText;

/// A variable that templates may use.
#[derive(Debug, Clone, Copy)]
pub struct DocumentedTemplateVariable {
    pub name: &'static str,
    /// Paths of the keys whose templates may use the variable.
    pub keys: &'static [&'static str],
    pub example: &'static str,
    pub meaning: BilingualText,
}

/// A filter of the Jinja language that templates may use.
#[derive(Debug, Clone, Copy)]
pub struct DocumentedTemplateFilter {
    /// Name of the filter, and a second name if it has one.
    pub names: &'static [&'static str],
    pub example: &'static str,
    /// The text that the example renders to.
    pub result: &'static str,
    pub meaning: BilingualText,
}

const REPLIES: &[&str] = &["intent.answer", "intent.failure", "intent.slot.ask"];
const REPLIES_AND_FALLBACK: &[&str] = &["intent.answer", "intent.failure", "intent.slot.ask", "brain.fallback"];

const fn variable(
    name: &'static str,
    keys: &'static [&'static str],
    example: &'static str,
    en: &'static str,
    zh: &'static str,
) -> DocumentedTemplateVariable {
    DocumentedTemplateVariable { name, keys, example, meaning: BilingualText { en, zh } }
}

/// Every variable of templates, with the keys that may use it.
pub const VARIABLES: &[DocumentedTemplateVariable] = &[
    variable(
        "args",
        &[
            "tool.run.command",
            "tool.run.env",
            "tool.run.http.url",
            "tool.run.http.headers",
            "tool.run.http.body",
            "tool.run.human.instructions",
            "tool.run.answer",
        ],
        "{{ args.city }}",
        "Arguments of the call, by name.",
        "本次调用的参数，按名称取值。",
    ),
    variable(
        "secrets",
        &[
            "tool.run.command",
            "tool.run.env",
            "tool.run.http.url",
            "tool.run.http.headers",
            "tool.run.http.body",
            "tool.run.skill.api_key",
            "tool.run.skill.token",
            "tool.run.skill.client.id",
            "tool.run.skill.client.secret",
            "tool.run.skill.signature",
            "mcp.command",
            "mcp.env",
            "mcp.headers",
            "brain.command",
            "brain.env",
        ],
        "{{ secrets.NOTES_KEY }}",
        "Secrets of [secrets], by name. The name must be written out.",
        "[secrets] 中的机密，按名称取值。名称须直接写出。",
    ),
    variable(
        "slots",
        REPLIES,
        "{{ slots.zone }}",
        "Values of the intent's slots; integers are numbers, dates have the form 2026-01-15.",
        "意图各槽位的值；整数为数字，日期形如 2026-01-15。",
    ),
    variable(
        "spoken",
        REPLIES,
        "{{ spoken.check_in }}",
        "The same values, with dates in words.",
        "同样的值，日期以文字表示。",
    ),
    variable(
        "language",
        REPLIES_AND_FALLBACK,
        "{% if language == \"zh-CN\" %}你好{% else %}Hello{% endif %}",
        "Language of the conversation: \"en\" or \"zh-CN\".",
        "对话的语言：\"en\" 或 \"zh-CN\"。",
    ),
    variable(
        "options",
        &["intent.answer", "intent.failure", "intent.slot.ask", "brain.fallback", "brain.instructions"],
        "{{ options.language }}",
        "Options of the session, except secret ones.",
        "对话的选项，机密选项除外。",
    ),
    variable(
        "text",
        &["intent.answer"],
        "{{ text | trim }}",
        "Result of the intent's tool as text.",
        "意图的工具返回的文本。",
    ),
    variable(
        "result",
        &["intent.answer"],
        "{{ result.rooms | length }}",
        "Result of the intent's tool, read as JSON.",
        "意图的工具返回的结果，按 JSON 解析。",
    ),
    variable("error", &["intent.failure"], "{{ error }}", "Why the tool failed.", "工具失败的原因。"),
    variable(
        "denied",
        &["intent.failure"],
        "{% if denied %}You did not allow it.{% endif %}",
        "Whether the call was not allowed.",
        "调用是否未获允许。",
    ),
    variable(
        "intents",
        &["brain.fallback"],
        "{{ intents | join(\", \") }}",
        "Names of the intents that have a tool.",
        "带工具的意图名称。",
    ),
];

const fn filter(
    names: &'static [&'static str],
    example: &'static str,
    result: &'static str,
    en: &'static str,
    zh: &'static str,
) -> DocumentedTemplateFilter {
    DocumentedTemplateFilter { names, example, result, meaning: BilingualText { en, zh } }
}

/// Every filter of templates; each may be used in every template.
pub const FILTERS: &[DocumentedTemplateFilter] = &[
    filter(&["abs"], "{{ -2 | abs }}", "2", "Absolute value.", "绝对值。"),
    filter(&["attr"], "{{ {'a': 1} | attr('a') }}", "1", "Value of a key.", "取键的值。"),
    filter(&["batch"], "{{ [1, 2, 3] | batch(2) }}", "[[1,2],[3]]", "Lists of a given length.", "按长度分组。"),
    filter(&["bool"], "{{ 0 | bool }}", "false", "Whether the value is not empty or zero.", "转换为布尔值。"),
    filter(
        &["capitalize"],
        "{{ 'ada' | capitalize }}",
        "Ada",
        "First letter upper case, the others lower case.",
        "首字母大写，其余小写。",
    ),
    filter(&["chain"], "{{ [1] | chain([2]) | list }}", "[1,2]", "Lists joined to one.", "连接多个列表。"),
    filter(&["default", "d"], "{{ nothing | default('-') }}", "-", "A value for a missing one.", "缺少值时的替代值。"),
    filter(
        &["dictsort"],
        "{{ {'b': 1, 'a': 2} | dictsort }}",
        "[[\"a\",2],[\"b\",1]]",
        "Pairs sorted by key.",
        "按键排序的键值对。",
    ),
    filter(
        &["escape", "e"],
        "{{ '<b>' | escape }}",
        "&lt;b&gt;",
        "Text with HTML characters escaped.",
        "转义 HTML 字符。",
    ),
    filter(&["first"], "{{ [1, 2] | first }}", "1", "First item.", "第一项。"),
    filter(&["float"], "{{ '1.5' | float }}", "1.5", "Conversion to a number.", "转换为小数。"),
    filter(
        &["format"],
        "{{ '%05.1f' | format(2.25) }}",
        "002.2",
        "Text with %-placeholders filled in.",
        "填充 % 占位符。",
    ),
    filter(
        &["groupby"],
        "{% for group in [{'k': 'a'}, {'k': 'a'}] | groupby('k') %}{{ group.grouper }}{% endfor %}",
        "a",
        "Items grouped by a key.",
        "按某个键分组。",
    ),
    filter(
        &["indent"],
        "{{ 'a\\nb' | indent(2) }}",
        "a\n  b",
        "Lines after the first indented.",
        "缩进首行以外的各行。",
    ),
    filter(&["int"], "{{ '7' | int }}", "7", "Conversion to a whole number.", "转换为整数。"),
    filter(&["items"], "{{ {'a': 1} | items }}", "[[\"a\",1]]", "Pairs of key and value.", "键值对列表。"),
    filter(&["join"], "{{ ['a', 'b'] | join(', ') }}", "a, b", "Items joined to a text.", "把各项连接成文本。"),
    filter(&["last"], "{{ [1, 2] | last }}", "2", "Last item.", "最后一项。"),
    filter(&["length", "count"], "{{ 'abc' | length }}", "3", "Number of items or characters.", "项数或字符数。"),
    filter(&["lines"], "{{ 'a\\nb' | lines }}", "[\"a\",\"b\"]", "Lines of a text.", "按行拆分文本。"),
    filter(&["list"], "{{ 'ab' | list }}", "[\"a\",\"b\"]", "Conversion to a list.", "转换为列表。"),
    filter(&["lower"], "{{ 'ABC' | lower }}", "abc", "Lower case.", "转换为小写。"),
    filter(
        &["map"],
        "{{ [{'n': 1}] | map(attribute='n') | list }}",
        "[1]",
        "A key or filter of each item.",
        "对每一项取键或应用过滤器。",
    ),
    filter(&["max"], "{{ [1, 2] | max }}", "2", "Largest item.", "最大的一项。"),
    filter(&["min"], "{{ [1, 2] | min }}", "1", "Smallest item.", "最小的一项。"),
    filter(&["pprint"], "{{ 1 | pprint }}", "1", "Value in readable form.", "以易读形式输出。"),
    filter(
        &["reject"],
        "{{ [0, 1] | reject('odd') | list }}",
        "[0]",
        "Items that do not pass a test.",
        "不符合测试的各项。",
    ),
    filter(
        &["rejectattr"],
        "{{ [{'a': true}, {'a': false}] | rejectattr('a') | list | length }}",
        "1",
        "Items whose key does not pass a test.",
        "某个键不符合测试的各项。",
    ),
    filter(&["replace"], "{{ 'a-b' | replace('-', ' ') }}", "a b", "Text with a part replaced.", "替换文本的一部分。"),
    filter(&["reverse"], "{{ [1, 2] | reverse | list }}", "[2,1]", "Reverse order.", "反转顺序。"),
    filter(&["round"], "{{ 2.345 | round(1) }}", "2.3", "Number rounded to some digits.", "四舍五入到指定位数。"),
    filter(
        &["safe"],
        "{{ '<b>' | safe }}",
        "<b>",
        "Text that `escape` leaves unchanged.",
        "标记为无需 `escape` 转义的文本。",
    ),
    filter(&["select"], "{{ [0, 1] | select('odd') | list }}", "[1]", "Items that pass a test.", "符合测试的各项。"),
    filter(
        &["selectattr"],
        "{{ [{'a': true}, {'a': false}] | selectattr('a') | list | length }}",
        "1",
        "Items whose key passes a test.",
        "某个键符合测试的各项。",
    ),
    filter(
        &["slice"],
        "{{ [1, 2, 3] | slice(2) }}",
        "[[1,2],[3]]",
        "A given number of lists.",
        "拆分为指定数量的列表。",
    ),
    filter(&["sort"], "{{ [2, 1] | sort }}", "[1,2]", "Items in order.", "排序。"),
    filter(&["split"], "{{ 'a,b' | split(',') }}", "[\"a\",\"b\"]", "Parts of a text.", "拆分文本。"),
    filter(&["string"], "{{ 1 | string }}", "1", "Conversion to text.", "转换为文本。"),
    filter(&["sum"], "{{ [1, 2] | sum }}", "3", "Sum of the items.", "求和。"),
    filter(&["title"], "{{ 'ada l' | title }}", "Ada L", "Each word with a capital.", "每个单词首字母大写。"),
    filter(
        &["tojson"],
        "{{ {'a': 1} | tojson }}",
        "{\"a\":1}",
        "Value as JSON, for bodies.",
        "输出为 JSON，用于请求体。",
    ),
    filter(&["trim"], "{{ ' a ' | trim }}", "a", "Text without white space at both ends.", "去除首尾空白。"),
    filter(&["unique"], "{{ [1, 1] | unique | list }}", "[1]", "Each item once.", "去重。"),
    filter(&["upper"], "{{ 'abc' | upper }}", "ABC", "Upper case.", "转换为大写。"),
    filter(
        &["zip"],
        "{{ [1, 2] | zip([3, 4]) | list }}",
        "[[1,3],[2,4]]",
        "Items of several lists side by side.",
        "并列组合多个列表的各项。",
    ),
];
