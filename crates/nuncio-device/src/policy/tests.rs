use super::*;

fn question(agent: &str, scope: &str, sensitivity: Sensitivity) -> PromptQuestion {
    PromptQuestion {
        agent: AgentId::parse(agent).unwrap(),
        scope: ScopeId::parse(scope).unwrap(),
        sensitivity,
        ..crate::prompt::tests::question()
    }
}

const FILE: &str = r#"
[[rule]]
agent = "agt_bad"
answer = "deny"

[[rule]]
scope = "filesystem:read"
answer = "allow"

[[rule]]
agent = "agt_guide"
scope = "location:read"
at_most = "high"
answer = "allow"
"#;

#[tokio::test]
async fn first_matching_policy_rule_answers_the_prompt_and_no_match_denies() {
    use Sensitivity::{High, Medium};
    let file = PromptPolicyFile::parse(FILE).unwrap();
    let rows = [
        (("agt_1", "filesystem:read", Medium), PromptAnswer::Yes),
        (("agt_bad", "filesystem:read", Medium), PromptAnswer::No),
        // Without `at_most` a rule does not allow high sensitivity.
        (("agt_1", "filesystem:read", High), PromptAnswer::No),
        (("agt_guide", "location:read", High), PromptAnswer::Yes),
        (("agt_1", "location:read", High), PromptAnswer::No),
        (("agt_1", "clipboard:read", Medium), PromptAnswer::No),
    ];
    for ((agent, scope, sensitivity), said) in rows {
        assert_eq!(file.ask(&question(agent, scope, sensitivity)).await, said, "{agent} {scope}");
    }
    assert_eq!(PromptPolicyFile::default().ask(&question("agt_1", "filesystem:read", Medium)).await, PromptAnswer::No);
}

#[test]
fn invalid_policy_file_is_refused_with_the_fault_and_line_number() {
    for (text, word) in [
        ("[[rule]]\nanswr = \"allow\"", "answr"),
        ("[[rule]]\nanswer = \"maybe\"", "maybe"),
        ("[[rule]]\nscope = \"no thing\"\nanswer = \"allow\"", "scope"),
        ("[[rule]]\nscope = \"filesystem:read\"", "answer"),
    ] {
        let why = PromptPolicyFile::parse(text).unwrap_err();
        assert!(why.contains(word) && why.contains("line"), "{why}");
    }
}
