use super::*;

pub(crate) fn record(n: i64) -> AuditRecord {
    AuditRecord {
        caller: Principal::Local,
        protocol: Protocol::Aap,
        references: AuditReferences::default(),
        agent: AgentName::parse("hotel").unwrap(),
        tool: ToolName::parse("book").unwrap(),
        scope: None,
        call: CallId::parse(&format!("c{n}")).unwrap(),
        session: None,
        turn: None,
        request: None,
        arguments_digest: Digest::ZERO,
        decision: AuditDecision::Allowed { by: vec!["policy".into()] },
        outcome: AuditOutcome::Completed,
        asked_at: Timestamp::from_millis(n),
        started_at: Some(Timestamp::from_millis(n)),
        ended_at: Timestamp::from_millis(n + 1),
    }
}

#[test]
fn audit_record_serialises_to_canonical_json_and_parses_back() {
    let refused = AuditDecision::Refused { by: "key:k\u{1}\"é".to_owned(), code: ErrorCode::Denied };
    let full = AuditRecord {
        scope: Some(ScopeId::parse("a:b").unwrap()),
        session: Some(SessionId::parse("s").unwrap()),
        turn: Some(7),
        request: Some("r\n\u{7f}客".to_owned()),
        started_at: None,
        references: AuditReferences { rule: Some(references::PermissionSource::Key), ..AuditReferences::default() },
        ..record(2)
    };
    let outcomes =
        [AuditOutcome::Completed, AuditOutcome::NotRun, AuditOutcome::Failed { code: ErrorCode::Interrupted }];
    for (outcome, decision) in
        outcomes.into_iter().flat_map(|it| [(it.clone(), refused.clone()), (it, record(1).decision)])
    {
        for base in [record(1), full.clone()] {
            let record = AuditRecord { outcome: outcome.clone(), decision: decision.clone(), ..base };
            let text = AuditChainLink::new(1, Digest::ZERO, &record).record;
            assert_eq!(text.as_bytes(), crate::digest::canonical(&record));
            assert_eq!(serde_json::from_str::<AuditRecord>(&text).unwrap(), record);
        }
    }
}

fn chain(length: u64) -> Vec<AuditChainLink> {
    let mut head = ChainHead::START;
    (1..=length)
        .map(|seq| {
            let link = AuditChainLink::new(seq, head.hash, &record(i64::try_from(seq).unwrap()));
            head = ChainHead { seq, hash: link.hash };
            link
        })
        .collect()
}

fn verify(links: &[AuditChainLink]) -> Result<ChainHead, AuditChainBreak> {
    let mut verifier = AuditChainVerifier::after(ChainHead::START);
    links.iter().try_for_each(|link| verifier.take(link))?;
    Ok(verifier.head())
}

#[test]
fn unchanged_audit_chain_is_valid() {
    assert_eq!(verify(&chain(5)).unwrap().seq, 5);
    assert_eq!(verify(&[]).unwrap(), ChainHead::START);
}

#[test]
fn audit_chain_with_changed_missing_or_forged_link_fails_at_the_first_bad_link() {
    let mut altered = chain(5);
    altered[2].record = altered[2].record.replace("completed", "not_run");
    assert_eq!(verify(&altered), Err(AuditChainBreak::Altered { seq: 3 }));

    let mut missing = chain(5);
    missing.remove(1);
    assert_eq!(verify(&missing), Err(AuditChainBreak::Gap { expected: 2, found: 3 }));

    let mut forged = chain(5);
    forged[3] = AuditChainLink::new(4, Digest::ZERO, &record(4));
    assert_eq!(verify(&forged), Err(AuditChainBreak::Detached { seq: 4 }));

    let mut rehashed = chain(5);
    rehashed[3] = AuditChainLink::new(4, rehashed[2].hash, &record(99));
    assert_eq!(verify(&rehashed), Err(AuditChainBreak::Detached { seq: 5 }));
}
