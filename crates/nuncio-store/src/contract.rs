//! What every store promises, as checks: each is given a place with nothing in it. A store's tests
//! run them all with [`store_contract!`](crate::store_contract).

#![expect(clippy::unwrap_used, reason = "a check that cannot go on has found something")]

use std::sync::Arc;

use async_trait::async_trait;
use nuncio_engine::ports::store::{Change, Conflict, Store, StoreError};

pub mod access;
pub mod accounts;
pub mod approvals;
pub mod audit;
pub mod callbacks;
pub mod calls;
pub mod commits;
pub mod consent_sample;
pub mod directory;
pub mod drafts;
pub mod executions;
pub mod followed;
pub mod forgotten;
pub mod letters;
pub mod mail;
pub mod messages;
pub mod people;
pub mod relations;
pub mod relay_sample;
pub mod relayed;
pub mod remembered;
pub mod sample;
pub mod seal_keys;
pub mod sessions;
pub mod stored_bytes;
pub mod tasks;
pub mod turns;
pub mod webhooks;

/// Where a store is kept.
#[async_trait]
pub trait Place: Send + Sync {
    /// Opens the store; what was committed to it before is there.
    async fn open(&self) -> Arc<dyn Store>;
}

/// Makes a test of every check. The expression makes a new, empty [`Place`].
#[macro_export]
macro_rules! store_contract {
    ($place:expr) => {
        $crate::store_contract! { @tests $place;
            sessions {
                read_back_as_created,
                an_unknown_one_is_not_there,
                an_id_is_taken_once,
                listed_newest_first,
                pages_join_without_gap_or_repetition,
                equal_times_do_not_confuse_the_cursor,
                nobody_sees_those_of_another,
                gone_with_all_that_belongs_to_it,
                an_unknown_one_cannot_be_deleted,
                pending_calls_are_replaced,
                pending_calls_need_a_session,
                a_summary_is_replaced,
                idle_ones_are_found_and_pruned,
            }
            turns {
                begin_and_end,
                settings_change_with_a_turn,
                one_at_a_time_and_in_order,
                need_a_session,
                end_once,
                running_ones_are_found,
                numbers_beyond_reason_are_not_there,
                of_many_who_begin_one_wins,
            }
            messages {
                read_back_in_order,
                places_fill_out_of_order,
                a_place_is_taken_once,
                need_a_session,
                read_from_a_place_on,
                unknown_fields_survive,
            }
            remembered {
                read_back_as_sent,
                a_key_is_used_once,
                keys_of_others_and_other_requests_differ,
                needs_a_session,
                forgotten_with_its_session,
            }
            access {
                keys_are_listed_oldest_first,
                a_key_id_is_taken_once,
                a_key_is_revoked_once,
                rotated_key_gets_its_new_secret_and_stays_the_same_key,
                rotation_needs_the_secret_that_was_read,
                of_many_rotations_of_a_key_one_wins,
                grants_are_listed_oldest_first,
                a_grant_id_is_taken_once,
                a_grant_is_revoked_once,
                a_grant_for_one_call_is_used_once,
                of_many_who_use_a_grant_one_wins,
            }
            approvals {
                read_back_as_asked,
                an_id_is_taken_once,
                move_only_from_where_they_were_read,
                an_unknown_one_cannot_move,
                waiting_ones_are_listed_oldest_first,
                of_many_who_decide_one_wins,
            }
            calls {
                kept_until_they_end,
                a_key_is_taken_once,
                survive_their_session,
            }
            audit {
                begins_empty,
                records_are_chained_in_order,
                read_in_pages,
                failed_units_leave_no_link,
                holds_under_many_at_once,
                records_of_a_call_are_found,
                oldest_records_are_pruned_and_the_rest_stays_chained,
                growth_is_observed,
            }
            forgotten {
                everything_of_the_person_goes_and_nothing_else,
                redacted_records_keep_their_hashes,
                erased_ledgers_are_read_back,
                groups_go_on_without_the_person,
                names_in_other_rows_become_the_pseudonym,
            }
            stored_bytes {
                conversations_count_until_they_are_deleted,
                finished_executions_count_until_they_are_forgotten,
                local_is_not_counted,
                failed_commits_count_nothing,
                sealed_messages_and_manifests_count_for_their_senders,
            }
            executions {
                read_back_whole,
                every_end_is_read_back,
                an_id_is_taken_once,
                a_key_is_used_once,
                a_call_that_has_begun_is_known,
                program_start_is_marked_by_the_holder,
                unstarted_attempts_are_counted,
                begun_as_it_is_accepted,
                keys_of_others_and_for_other_skills_differ,
                claimed_only_from_the_named_holder,
                begun_only_by_the_holder_and_in_order,
                over_once_and_only_by_the_holder,
                unfinished_ones_are_listed_oldest_first,
                a_lease_is_renewed_by_its_holder,
                times_never_go_back,
                forgotten_when_kept_long_enough,
                not_more_are_forgotten_than_asked_for,
                of_many_with_one_key_one_wins,
                of_many_who_go_on_with_it_one_wins,
                kept_across_reopening,
            }
            callbacks {
                the_first_to_be_told_come_first,
                one_execution_is_owed_one,
                an_unknown_execution_is_owed_none,
                removed_and_removed_again,
                owed_with_the_end_or_not_at_all,
                forgotten_with_their_execution,
                kept_across_reopening,
            }
            tasks {
                read_back_as_created,
                an_id_is_taken_once,
                move_only_from_what_was_read,
                an_unknown_one_cannot_move,
                open_ones_are_listed_oldest_first,
                of_many_who_take_one_wins,
            }
            followed {
                read_back_whole,
                listed_by_name,
                a_domain_is_followed_once,
                offers_stay_until_replaced,
                an_unknown_one_stays_unknown,
                kept_across_reopening,
            }
            directory {
                read_back_whole,
                an_address_is_listed_once,
                a_look_is_kept_of_what_is_listed,
                removed_once,
                kept_across_reopening,
            }
            drafts {
                read_back_as_made,
                an_id_and_a_key_are_taken_once,
                move_only_from_where_they_were_read,
                open_ones_are_listed_oldest_first,
                forgotten_unless_both_accepted,
                of_many_who_decide_one_wins,
                kept_across_reopening,
            }
            letters {
                the_first_to_be_taken_come_first,
                owed_once_and_settled,
                owed_with_their_session_alone,
                an_answer_finds_its_message,
                old_messages_are_forgotten,
                a_link_is_replaced_and_cut,
                kept_across_reopening,
            }
            people {
                known_once_and_listed_by_name,
                an_invite_is_for_someone,
                a_device_comes_in_once,
                of_many_with_one_invite_one_comes_in,
                a_device_is_taken_away_once,
                a_nonce_counts_once,
            }
            accounts {
                read_back_whole,
                an_id_is_taken_once,
                move_only_from_what_was_read,
                listed_by_owner,
                public_ones_are_found,
                published_with_its_account,
                versions_are_listed_newest_first,
                of_many_who_publish_one_wins,
            }
            relations {
                read_back_whole,
                needs_both_and_the_manifest_that_was_seen,
                one_goes_on_between_two,
                move_only_from_what_was_read,
                whoever_publishes_looks_again,
                a_grant_for_one_call_is_used_once,
                a_ledger_grows_at_its_end,
                kept_across_reopening,
            }
            mail {
                numbered_for_each_recipient,
                numbers_have_no_gaps,
                each_reader_has_a_place,
                old_mail_is_forgotten_but_not_its_numbers,
                what_happened_is_in_the_audit_chain,
            }
            relayed {
                read_back_whole,
                an_id_and_a_pair_are_taken_once,
                listed_by_id_for_each_member,
                others_take_part,
                change_only_from_the_revision_before,
                messages_are_read_back_whole,
                numbered_without_gaps,
                posted_only_where_it_was_seen,
                a_client_id_is_used_once,
                of_many_with_one_client_id_one_wins,
                each_is_told_and_the_sender_has_read,
                read_never_back_nor_beyond,
                read_after_a_number,
                claimed_by_one_device,
                of_many_who_claim_one_wins,
                old_messages_are_forgotten_but_not_their_numbers,
                a_clock_put_back_costs_no_message,
                kept_across_reopening,
            }
            seal_keys {
                read_back_whole,
                an_older_bundle_does_not_come_back,
                a_device_id_is_per_owner,
                an_agent_has_one_bundle,
                one_time_keys_are_handed_out_oldest_first,
                of_many_who_take_one_key_one_wins,
                one_time_keys_stay_and_a_fallback_key_is_replaced,
                beyond_the_most_the_oldest_go,
                one_time_keys_need_a_bundle,
                another_olm_key_ends_one_time_keys,
                a_removed_device_has_no_keys,
                endorsed_by_another_device,
                a_backup_is_replaced_and_removed_once,
                kept_across_reopening,
            }
            webhooks {
                read_back_and_listed,
                whoever_is_told_is_called,
                a_message_calls_whoever_is_told,
                the_first_due_come_first,
                some_are_left_out,
                nothing_overtakes_in_a_lane,
                a_conversation_is_a_lane,
                who_cannot_be_reached_is_not_called,
                what_waited_goes_with_its_webhook,
                what_is_over_stands_in_the_log,
                tried_again_later_or_sooner,
                forgotten_mail_is_not_delivered,
                an_old_log_is_forgotten,
                kept_across_reopening,
            }
            commits {
                nothing_is_something_too,
                all_or_nothing,
                a_failure_is_the_failing_units_alone,
                a_unit_sees_its_own_changes,
                kept_across_reopening,
                queued_ones_are_made_before_it_closes,
                sound_store_is_writable_and_has_no_damage,
            }
        }
    };
    (@tests $place:expr; $($module:ident { $($check:ident),* $(,)? })*) => {
        $(mod $module {
            use super::*;
            $(
                #[::tokio::test(flavor = "multi_thread")]
                async fn $check() {
                    $crate::contract::$module::$check(&$place).await;
                }
            )*
        })*
    };
}

/// Commits what must be refused, and says why it was.
async fn refusal(store: &dyn Store, changes: impl Into<Vec<Change>>) -> Conflict {
    match store.commit(changes.into()).await {
        Err(StoreError::Conflict(conflict)) => conflict,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

/// Commits what must be taken.
async fn made(store: &dyn Store, changes: impl Into<Vec<Change>>) {
    store.commit(changes.into()).await.unwrap();
}

/// Commits every unit at the same time, each in a task of its own; the outcomes in their order.
async fn race(store: &Arc<dyn Store>, units: impl IntoIterator<Item = Vec<Change>>) -> Vec<Result<(), StoreError>> {
    let tasks: Vec<_> = units
        .into_iter()
        .map(|unit| {
            let store = Arc::clone(store);
            tokio::spawn(async move { store.commit(unit).await })
        })
        .collect();
    let mut outcomes = Vec::with_capacity(tasks.len());
    for task in tasks {
        outcomes.push(task.await.unwrap());
    }
    outcomes
}

/// Asserts that one alone was taken and all others met that conflict.
fn assert_one_winner(outcomes: &[Result<(), StoreError>], conflict: Conflict) {
    let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let lost = outcomes.iter().filter(|outcome| **outcome == Err(StoreError::Conflict(conflict))).count();
    assert_eq!((won, lost), (1, outcomes.len() - 1), "{outcomes:?}");
}
