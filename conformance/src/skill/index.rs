//! Discovery (§4): the index, its entries, filters, paging and caching.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::Value;

use super::form::{ACCESS, CAPABILITIES, one_of_words, text, url, version};
use super::wire::{SkillServerUnderTest, WELL_KNOWN, entries, ids};
use crate::verdict::{CheckStopReason, CheckVerdict, ensure, equal, fail, skip};

checks![
    index_answers,
    index_is_json,
    index_has_required_fields,
    index_entries_have_required_fields,
    index_ids_unique,
    index_answers_head_requests,
    index_descriptors_agree,
    index_filter_returns_only_the_type,
    index_filter_returns_all_of_the_type,
    index_filter_unknown_is_400,
    index_ignores_unknown_parameters,
    index_pages_list_each_skill_once,
    index_limit_wrong_is_400,
    index_unchanged_is_304,
    index_can_be_cached,
    index_hides_private_skills_from_anonymous_callers,
    index_lists_private_skills_to_authorized_callers,
    index_hides_private_skills_from_unauthorized_callers,
    index_with_wrong_key_equals_the_public_index,
    index_with_private_is_not_cached,
];

async fn index_answers(api: &SkillServerUnderTest) -> CheckVerdict {
    api.get(WELL_KNOWN).await?.status(200).map(drop)
}

async fn index_is_json(api: &SkillServerUnderTest) -> CheckVerdict {
    api.get(WELL_KNOWN).await?.status(200)?.json().map(drop)
}

async fn index_has_required_fields(api: &SkillServerUnderTest) -> CheckVerdict {
    version(&api.index["protocol"], "version")?;
    text(&api.index["provider"], "name")?;
    if api.index["provider"].get("url").is_some() {
        url(&api.index["provider"], "url")?;
    }
    ensure(api.index["skills"].is_array(), || format!("expected `skills` as a list, got {}", api.index["skills"]))
}

async fn index_entries_have_required_fields(api: &SkillServerUnderTest) -> CheckVerdict {
    for entry in api.entries() {
        for name in ["id", "name", "description"] {
            text(entry, name)?;
        }
        one_of_words(entry, "capability_type", &CAPABILITIES)?;
        one_of_words(entry, "access", &ACCESS)?;
        version(entry, "version")?;
        url(entry, "descriptor_url")?;
    }
    Ok(())
}

async fn index_ids_unique(api: &SkillServerUnderTest) -> CheckVerdict {
    let all = ids(&api.index);
    let different: BTreeSet<_> = all.iter().collect();
    equal("different ids", all.len(), different.len())
}

async fn index_answers_head_requests(api: &SkillServerUnderTest) -> CheckVerdict {
    let (get, head) = (api.get(WELL_KNOWN).await?, api.call(api.request(Method::HEAD, WELL_KNOWN)).await?);
    head.status(200)?;
    equal("length of the body", 0, head.body.len())?;
    for name in ["content-type", "etag", "cache-control"] {
        equal(name, get.header(name), head.header(name))?;
    }
    Ok(())
}

async fn index_descriptors_agree(api: &SkillServerUnderTest) -> CheckVerdict {
    for entry in api.entries() {
        let descriptor = api.get(text(entry, "descriptor_url")?).await?.status(200)?.json()?;
        for name in ["id", "name", "version", "access", "capability_type", "description"] {
            equal(&format!("{}: {name}", entry["id"]), &entry[name], &descriptor[name])?;
        }
    }
    Ok(())
}

async fn filtered(api: &SkillServerUnderTest, kind: &str) -> Result<Value, CheckStopReason> {
    api.get(&format!("{WELL_KNOWN}?type={kind}")).await?.status(200)?.json()
}

async fn index_filter_returns_only_the_type(api: &SkillServerUnderTest) -> CheckVerdict {
    for kind in CAPABILITIES {
        for entry in entries(&filtered(api, kind).await?) {
            equal(
                &format!("{}: capability_type", entry["id"]),
                kind,
                entry["capability_type"].as_str().unwrap_or_default(),
            )?;
        }
    }
    Ok(())
}

async fn index_filter_returns_all_of_the_type(api: &SkillServerUnderTest) -> CheckVerdict {
    for kind in CAPABILITIES {
        let wanted: Vec<_> = api.entries().iter().filter(|entry| entry["capability_type"] == kind).cloned().collect();
        equal(&format!("entries of type {kind}"), wanted.as_slice(), entries(&filtered(api, kind).await?))?;
    }
    Ok(())
}

async fn index_filter_unknown_is_400(api: &SkillServerUnderTest) -> CheckVerdict {
    for kind in ["", "API", "service", "api%00", "api,task"] {
        api.get(&format!("{WELL_KNOWN}?type={kind}")).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}

async fn index_ignores_unknown_parameters(api: &SkillServerUnderTest) -> CheckVerdict {
    let other = api.get(&format!("{WELL_KNOWN}?utm_source=x&v=2")).await?.status(200)?.json()?;
    equal("index", &api.index, &other)
}

/// Skill ids on each page of the index, following the links to the next page.
async fn pages(api: &SkillServerUnderTest, first: &str) -> Result<Vec<Vec<String>>, CheckStopReason> {
    let mut pages = Vec::new();
    let mut next = Some(first.to_owned());
    while let Some(path) = next {
        let reply = api.get(&path).await?;
        let page = reply.status(200)?.json()?;
        pages.push(ids(&page).into_iter().map(str::to_owned).collect());
        ensure(pages.len() <= api.entries().len() + 1, || "expected the pages to end".to_owned())?;
        next = match reply.header("link") {
            "" => None,
            link => {
                let target = link.strip_prefix('<').and_then(|link| link.strip_suffix(">; rel=\"next\""));
                Some(target.ok_or_else(|| fail(format!("expected a link to the next page, got {link}")))?.to_owned())
            }
        };
    }
    Ok(pages)
}

async fn index_pages_list_each_skill_once(api: &SkillServerUnderTest) -> CheckVerdict {
    for limit in [1, 2, 7] {
        let pages = pages(api, &format!("{WELL_KNOWN}?limit={limit}")).await?;
        ensure(pages.iter().all(|page| page.len() <= limit), || {
            format!("expected at most {limit} a page, got {pages:?}")
        })?;
        equal("ids over all pages", ids(&api.index), pages.concat())?;
        let tasks = self::pages(api, &format!("{WELL_KNOWN}?type=task&limit={limit}")).await?;
        equal("ids of tasks over all pages", ids(&filtered(api, "task").await?), tasks.concat())?;
    }
    Ok(())
}

async fn index_limit_wrong_is_400(api: &SkillServerUnderTest) -> CheckVerdict {
    for limit in ["0", "-1", "many", "1.5", "99999999999999999999"] {
        api.get(&format!("{WELL_KNOWN}?limit={limit}")).await?.refused_as(400, "VALIDATION_ERROR")?;
    }
    Ok(())
}

async fn index_unchanged_is_304(api: &SkillServerUnderTest) -> CheckVerdict {
    let first = api.get(WELL_KNOWN).await?;
    let tag = first.header("etag");
    ensure(tag.starts_with('"'), || format!("expected a strong ETag, got {tag:?}"))?;
    for known in [tag.to_owned(), format!("W/{tag}"), format!("\"other\", {tag}")] {
        let again = api.get_with(WELL_KNOWN, &[("if-none-match", &known)]).await?;
        equal("body", 0, again.status(304)?.body.len())?;
        equal("etag", tag, again.header("etag"))?;
    }
    api.get_with(WELL_KNOWN, &[("if-none-match", "\"other\"")]).await?.status(200).map(drop)
}

async fn index_can_be_cached(api: &SkillServerUnderTest) -> CheckVerdict {
    if api.entries().iter().any(|entry| entry["access"] == "private") {
        return Err(skip("here everyone sees what is private"));
    }
    let reply = api.get(WELL_KNOWN).await?;
    let caching = reply.header("cache-control");
    ensure(caching.contains("max-age="), || format!("expected how long it keeps, got {caching:?}"))?;
    let vary = reply.header("vary").to_lowercase();
    ensure(vary.contains("authorization"), || format!("expected Vary with authorization, got {vary:?}"))
}

const PRIVATE_SKILLS: [&str; 2] = ["probe/private", "probe/signed-private"];

async fn index_hides_private_skills_from_anonymous_callers(api: &SkillServerUnderTest) -> CheckVerdict {
    let all = ids(&api.index);
    for entry in api.entries() {
        ensure(entry["access"] != "private", || format!("expected nothing private, got {entry}"))?;
    }
    for id in PRIVATE_SKILLS {
        ensure(!all.contains(&id), || format!("expected no {id}, got {all:?}"))?;
        ensure(!api.index.to_string().contains(id), || format!("expected no word of {id}"))?;
    }
    for id in ["probe/all", "probe/keyed", "probe/restricted", "probe/signed", "probe/signed-public"] {
        ensure(all.contains(&id), || format!("expected {id}, got {all:?}"))?;
    }
    for kind in CAPABILITIES {
        let index = filtered(api, kind).await?;
        ensure(entries(&index).iter().all(|entry| entry["access"] != "private"), || {
            format!("expected none, got {index}")
        })?;
    }
    Ok(())
}

async fn index_lists_private_skills_to_authorized_callers(api: &SkillServerUnderTest) -> CheckVerdict {
    let (name, key) = api.key()?;
    let bearer = format!("Bearer {key}");
    for header in [(name, key), ("Authorization", &bearer)] {
        let index = api.get_with(WELL_KNOWN, &[header]).await?.status(200)?.json()?;
        for id in PRIVATE_SKILLS {
            ensure(ids(&index).contains(&id), || format!("expected {id}, got {:?}", ids(&index)))?;
        }
        let public = ids(&api.index);
        ensure(public.iter().all(|id| ids(&index).contains(id)), || "expected all that everyone sees".to_owned())?;
    }
    Ok(())
}

async fn index_hides_private_skills_from_unauthorized_callers(api: &SkillServerUnderTest) -> CheckVerdict {
    let (everyone, theirs) = (api.get(WELL_KNOWN).await?, api.get_with(WELL_KNOWN, &[api.other_key()?]).await?);
    equal("the answer", everyone.fingerprint("-"), theirs.fingerprint("-"))
}

async fn index_with_wrong_key_equals_the_public_index(api: &SkillServerUnderTest) -> CheckVerdict {
    let everyone = api.get(WELL_KNOWN).await?;
    for header in [("Authorization", "Bearer nk_wrong"), ("X-API-Key", "nk_wrong"), ("X-API-Key", "")] {
        let theirs = api.get_with(WELL_KNOWN, &[header]).await?;
        equal("the answer", everyone.fingerprint("-"), theirs.fingerprint("-"))?;
    }
    Ok(())
}

async fn index_with_private_is_not_cached(api: &SkillServerUnderTest) -> CheckVerdict {
    let reply = api.get_with(WELL_KNOWN, &[api.key()?]).await?;
    let caching = reply.status(200)?.header("cache-control");
    ensure(caching.contains("no-store"), || format!("expected no-store, got {caching:?}"))
}
