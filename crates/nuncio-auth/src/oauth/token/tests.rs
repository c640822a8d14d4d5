//! Tests of token headers and claims, which are checked before the signature.

use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_800_000_000;

fn issuer() -> IssuerSetting {
    toml::from_str("url = \"https://id.example\"\naudience = [\"https://api.example\", \"nuncio\"]").unwrap()
}

fn encode(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

fn token(header: &Value, claims: &Value) -> String {
    format!("{}.{}.c2lnbmF0dXJl", encode(header), encode(claims))
}

/// Valid claims with some changed; `null` removes a claim.
fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "iss": "https://id.example", "sub": "ada", "aud": "nuncio", "exp": NOW + 100, "iat": NOW,
        "scope": "rooms:read booking:write",
    });
    let Value::Object(changes) = changes else { panic!("changes are an object") };
    for (name, value) in changes {
        claims[name] = value;
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn verify(header: &Value, changes: Value, seconds: i64) -> Result<VerifiedToken, String> {
    match ParsedToken::read(&token(header, &claims(changes))) {
        ParsedToken::Jwt(jwt) => jwt.verify_claims(&issuer(), Timestamp::from_millis(seconds * 1000)),
        ParsedToken::Opaque => Err("opaque".to_owned()),
        ParsedToken::Malformed(why) => Err(why),
    }
}

fn access_header() -> Value {
    json!({"alg": "RS256", "typ": "at+jwt", "kid": "1"})
}

fn scopes(changes: Value) -> Vec<String> {
    let AuthenticationMethod::Token { scopes, .. } =
        verify(&access_header(), changes, NOW).unwrap().caller.authentication
    else {
        panic!("the caller of a token has a token credential")
    };
    scopes.iter().map(ToString::to_string).collect()
}

#[test]
fn valid_token_identifies_its_subject_until_expiry_plus_leeway() {
    let good = verify(&access_header(), json!({}), NOW).unwrap();
    let ada = Principal::OAuth { issuer: "https://id.example".into(), subject: "ada".into() };
    assert_eq!(good.caller.principal, ada);
    assert_eq!(good.until, Timestamp::from_millis((NOW + 160) * 1000), "the end includes the leeway");
    assert!(verify(&access_header(), json!({}), NOW + 159).is_ok());
    assert_eq!(verify(&access_header(), json!({}), NOW + 160).unwrap_err(), "it has expired");
    let of_client = verify(&access_header(), json!({"sub": null, "client_id": "app"}), NOW).unwrap();
    assert!(matches!(of_client.caller.principal, Principal::OAuth { subject, .. } if subject == "app"));
    assert!(verify(&access_header(), json!({"aud": ["other", "https://api.example"]}), NOW).is_ok());
    assert!(verify(&access_header(), json!({"nonce": "n"}), NOW).is_ok(), "its header declares an access token");
}

#[test]
fn token_scopes_are_read_from_text_or_list_and_invalid_scope_ids_ignored() {
    assert_eq!(scopes(json!({})), ["booking:write", "rooms:read"]);
    assert_eq!(scopes(json!({"scope": ["rooms:read", "rooms:read"]})), ["rooms:read"]);
    assert_eq!(scopes(json!({"scope": null, "scp": "rooms:read"})), ["rooms:read"]);
    assert!(scopes(json!({"scope": null})).is_empty());
    assert_eq!(scopes(json!({"scope": "../x rooms:read \u{fc}"})), ["rooms:read"]);
}

#[test]
fn invalid_token_claims_are_refused_with_the_reason() {
    let cases = [
        (json!({"aud": "other"}), "another audience"),
        (json!({"aud": null}), "another audience"),
        (json!({"aud": []}), "another audience"),
        (json!({"aud": "NUNCIO"}), "another audience"),
        (json!({"exp": null}), "no expiry time"),
        (json!({"exp": NOW - 61}), "expired"),
        (json!({"exp": -1.0e300}), "expired"),
        (json!({"nbf": NOW + 61}), "future"),
        (json!({"iat": NOW + 61}), "future"),
        (json!({"sub": null}), "no subject"),
        (json!({"sub": ""}), "not a valid name"),
        (json!({"sub": "a\nb"}), "not a valid name"),
        (json!({"sub": "x".repeat(600)}), "not a valid name"),
        (json!({"cnf": {"jkt": "x"}}), "bound to a proof"),
        (json!({"exp": "soon"}), "cannot be read"),
        (json!({"aud": {"is": "nuncio"}}), "cannot be read"),
    ];
    for (changes, expected) in cases {
        let why = verify(&access_header(), changes.clone(), NOW).unwrap_err();
        assert!(why.contains(expected), "{changes}: {why}");
    }
}

#[test]
fn id_tokens_and_other_kinds_of_tokens_are_refused_as_access_tokens() {
    let plain = json!({"alg": "RS256", "typ": "JWT"});
    assert!(verify(&plain, json!({}), NOW).is_ok());
    assert!(verify(&json!({"alg": "RS256"}), json!({"typ": "Bearer"}), NOW).is_ok());
    for claim in [json!({"nonce": "n"}), json!({"at_hash": "h"}), json!({"events": {}}), json!({"typ": "ID"})] {
        assert!(verify(&plain, claim.clone(), NOW).unwrap_err().contains("ID token"), "{claim}");
    }
    for typ in ["id+jwt", "logout+jwt", "dpop+jwt", "secevent+jwt"] {
        let why = verify(&json!({"alg": "RS256", "typ": typ}), json!({}), NOW).unwrap_err();
        assert!(why.contains("not that of an access token"), "{typ}: {why}");
    }
}

#[test]
fn jwt_with_unsupported_algorithm_or_critical_extension_is_refused() {
    for alg in ["none", "None", "HS256", "HS512", "rs256", "", "ES256K"] {
        let why = verify(&json!({"alg": alg}), json!({}), NOW).unwrap_err();
        assert!(why.contains("never accepted"), "{alg}: {why}");
    }
    let why = verify(&json!({"alg": "RS256", "crit": ["b64"], "b64": false}), json!({}), NOW).unwrap_err();
    assert!(why.contains("critical"), "{why}");
}

#[test]
fn token_with_a_duplicate_claim_is_refused() {
    let twice = r#"{"iss":"https://id.example","sub":"ada","aud":"other","aud":"nuncio","exp":1800000100}"#;
    let text = format!("{}.{}.c2ln", encode(&access_header()), URL_SAFE_NO_PAD.encode(twice));
    assert!(matches!(ParsedToken::read(&text), ParsedToken::Malformed(why) if why.contains("claims")));
}

#[test]
fn text_that_is_no_valid_jwt_is_classified_as_opaque_or_malformed() {
    for opaque in ["zb_Sjc9C4n2f", "a.b.c", "a.b", "a.b.c.d.e", "e30.e30.e30", "", "W10.W10.W10"] {
        assert!(matches!(ParsedToken::read(opaque), ParsedToken::Opaque), "{opaque}");
    }
    let good = token(&access_header(), &claims(json!({})));
    for broken in
        ["a b", "t\u{f6}ken", "a%00", &"x".repeat(MAX_TOKEN_BYTES + 1), &format!("{good}="), &format!("{good}!")]
    {
        assert!(matches!(ParsedToken::read(broken), ParsedToken::Malformed(_)), "{broken}");
    }
}
