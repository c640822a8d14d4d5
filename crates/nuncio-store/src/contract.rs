//! Contract tests for every implementation of `Store`, run with [`store_contract!`](crate::store_contract). Each check
//! gets an empty database.

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
pub mod direct_messages;
pub mod directory;
pub mod drafts;
pub mod erasure;
pub mod executions;
pub mod followed;
pub mod idempotency;
pub mod mail;
pub mod messages;
pub mod people;
pub mod relations;
pub mod relay_sample;
pub mod relayed;
pub mod sample;
pub mod seal_keys;
pub mod sessions;
pub mod stored_bytes;
pub mod tasks;
pub mod turns;
pub mod webhooks;

/// A database that a check can open and reopen.
#[async_trait]
pub trait TestDatabase: Send + Sync {
    /// Opens the store with everything committed before.
    async fn open(&self) -> Arc<dyn Store>;
}

/// Generates a test for every check. The expression creates an empty [`TestDatabase`].
#[macro_export]
macro_rules! store_contract {
    ($place:expr) => {
        $crate::store_contract! { @tests $place;
            sessions {
                session_round_trips,
                unknown_session_is_not_found,
                duplicate_session_id_is_refused,
                sessions_are_listed_newest_first,
                session_pages_have_no_gaps_or_repetitions,
                cursor_separates_sessions_with_equal_times,
                sessions_of_other_owners_are_not_listed,
                deleting_a_session_deletes_its_dependents,
                deleting_unknown_session_is_refused,
                pending_calls_are_replaced,
                pending_calls_need_a_session,
                second_summary_replaces_the_first,
                idle_sessions_are_listed_and_pruned,
            }
            turns {
                turn_begins_and_ends,
                turn_stores_changed_settings,
                turns_run_one_at_a_time_and_in_order,
                turn_without_session_is_refused,
                turn_ends_only_once,
                running_turns_are_listed,
                turn_numbers_above_i64_are_not_found,
                one_of_many_concurrent_begins_wins,
            }
            messages {
                messages_are_read_in_order,
                message_numbers_may_be_filled_out_of_order,
                taken_message_number_is_refused,
                message_without_session_is_refused,
                messages_are_read_from_a_number_on,
                unknown_message_fields_are_preserved,
            }
            idempotency {
                idempotency_record_round_trips,
                reused_idempotency_key_is_refused,
                keys_are_separate_per_owner_and_request,
                record_without_session_is_refused,
                record_is_deleted_with_its_session,
            }
            access {
                keys_are_listed_oldest_first,
                duplicate_key_id_is_refused,
                key_is_revoked_only_once,
                rotation_changes_only_the_secret_of_a_key,
                rotation_of_changed_key_is_refused,
                one_of_many_concurrent_rotations_wins,
                grants_are_listed_oldest_first,
                duplicate_grant_id_is_refused,
                grant_is_revoked_only_once,
                one_time_grant_is_used_only_once,
                one_of_many_concurrent_grant_uses_wins,
            }
            approvals {
                approval_round_trips,
                duplicate_approval_id_is_refused,
                approval_changes_only_from_the_state_that_was_read,
                changing_unknown_approval_is_refused,
                pending_approvals_are_listed_oldest_first,
                one_of_many_concurrent_decisions_wins,
            }
            calls {
                started_calls_are_stored_until_they_end,
                duplicate_call_key_is_refused,
                started_call_survives_deletion_of_its_session,
            }
            audit {
                new_audit_chain_is_empty,
                records_are_chained_in_order,
                audit_records_are_read_in_pages,
                failed_commit_leaves_no_audit_record,
                chain_verifies_after_concurrent_commits,
                audit_records_are_found_by_call,
                pruning_deletes_oldest_records_and_keeps_the_chain,
                audit_growth_reports_each_commit,
            }
            erasure {
                erasure_deletes_only_the_persons_rows,
                redacted_records_keep_their_hashes,
                redacted_ledger_entries_round_trip,
                groups_continue_without_the_erased_person,
                pseudonym_replaces_the_name_in_other_rows,
            }
            stored_bytes {
                session_bytes_count_until_deletion,
                execution_bytes_count_until_deletion,
                local_caller_is_not_counted,
                failed_commit_adds_no_bytes,
                messages_and_manifests_count_for_their_authors,
            }
            executions {
                execution_round_trips,
                every_end_state_round_trips,
                duplicate_execution_id_is_refused,
                reused_idempotency_key_is_refused,
                begun_calls_are_listed_with_their_authorization,
                only_the_lease_holder_finishes_its_attempt,
                only_the_lease_holder_marks_program_start,
                unstarted_attempts_are_counted,
                execution_may_be_created_with_its_first_attempt_begun,
                keys_are_separate_per_caller_and_skill,
                claim_requires_the_current_lease_holder,
                attempts_begin_in_order_and_only_by_the_lease_holder,
                execution_ends_once_and_only_by_the_lease_holder,
                unfinished_executions_are_listed_oldest_first,
                lease_is_renewed_only_for_its_holder,
                execution_times_never_decrease,
                executions_are_deleted_after_their_retention,
                deletion_respects_its_limit,
                one_of_many_concurrent_creations_with_one_key_wins,
                one_of_many_concurrent_claims_wins,
                executions_survive_reopening,
            }
            callbacks {
                callbacks_are_listed_in_due_order,
                execution_has_at_most_one_callback,
                callback_of_unknown_execution_is_refused,
                removing_a_missing_callback_is_no_conflict,
                callback_is_stored_atomically_with_the_end,
                callback_is_deleted_with_its_execution,
                callbacks_survive_reopening,
            }
            tasks {
                task_round_trips,
                duplicate_task_id_is_refused,
                task_changes_only_from_the_state_that_was_read,
                changing_unknown_task_is_refused,
                open_tasks_are_listed_oldest_first,
                one_of_many_concurrent_takers_wins,
            }
            followed {
                followed_domain_round_trips,
                followed_domains_are_listed_by_name,
                following_a_domain_twice_is_refused,
                offers_are_kept_until_replaced,
                updating_unknown_domain_is_refused,
                followed_domains_survive_reopening,
            }
            directory {
                listing_round_trips,
                second_listing_of_a_url_replaces_the_first,
                check_updates_only_existing_listing,
                listing_is_removed_only_once,
                listings_survive_reopening,
            }
            drafts {
                draft_round_trips,
                duplicate_draft_id_or_key_is_refused,
                draft_changes_only_from_the_state_that_was_read,
                open_drafts_are_listed_oldest_first,
                expired_drafts_are_deleted_unless_both_accepted,
                one_of_many_concurrent_decisions_wins,
                drafts_survive_reopening,
            }
            direct_messages {
                pending_replies_are_listed_in_due_order,
                pending_reply_is_replaced_and_removed,
                pending_reply_is_deleted_with_its_session,
                reply_is_stored_with_its_message,
                old_direct_messages_are_deleted,
                person_link_is_replaced_and_removed,
                direct_messages_survive_reopening,
            }
            people {
                people_are_stored_once_and_listed_by_name,
                invite_for_unknown_person_is_refused,
                invite_enrols_only_one_device,
                one_of_many_concurrent_enrolments_wins,
                device_is_revoked_only_once,
                nonce_is_accepted_only_once,
            }
            accounts {
                account_round_trips,
                duplicate_account_id_is_refused,
                account_changes_only_from_the_revision_that_was_read,
                accounts_are_listed_by_owner,
                public_accounts_are_found_by_search_words,
                manifest_is_stored_with_its_account,
                manifest_versions_are_listed_newest_first,
                one_of_many_concurrent_publications_wins,
            }
            relations {
                relation_round_trips,
                relation_needs_person_agent_and_current_manifest,
                second_active_relation_is_refused,
                relation_changes_only_from_the_revision_that_was_read,
                relation_change_invalidates_concurrent_publication,
                one_time_grant_is_used_only_once,
                ledger_entry_must_follow_the_last_one,
                relations_survive_reopening,
            }
            mail {
                mail_is_numbered_per_recipient,
                concurrent_mail_is_numbered_without_gaps,
                each_reader_has_its_own_position,
                deleted_mail_numbers_are_not_reused,
                events_are_appended_to_the_audit_chain,
            }
            relayed {
                conversation_round_trips,
                duplicate_conversation_id_or_pair_is_refused,
                conversations_are_listed_by_id_per_member,
                members_can_be_changed,
                conversation_changes_only_from_the_previous_revision,
                relayed_message_round_trips,
                concurrent_messages_are_numbered_without_gaps,
                message_for_outdated_revision_is_refused,
                reused_client_id_is_refused,
                one_of_many_concurrent_posts_with_one_client_id_wins,
                message_notifies_members_and_advances_senders_position,
                read_position_never_decreases_or_exceeds_the_last_message,
                messages_are_read_after_a_number,
                message_is_claimed_by_only_one_device,
                one_of_many_concurrent_claims_wins,
                deleted_message_numbers_are_not_reused,
                clock_set_back_deletes_no_newer_message,
                conversations_survive_reopening,
            }
            seal_keys {
                key_bundle_round_trips,
                older_bundle_is_refused,
                device_ids_are_separate_per_owner,
                new_agent_bundle_replaces_the_previous_device,
                one_time_keys_are_handed_out_oldest_first,
                one_of_many_concurrent_takers_of_a_key_wins,
                upload_keeps_one_time_keys_and_replaces_fallback_key,
                oldest_one_time_keys_over_limit_are_deleted,
                one_time_keys_without_bundle_are_refused,
                new_olm_key_deletes_one_time_keys,
                removing_a_bundle_deletes_its_keys,
                endorsement_by_another_device_is_stored,
                backup_is_replaced_and_removed_only_once,
                key_bundles_survive_reopening,
            }
            webhooks {
                webhook_round_trips_and_is_listed,
                mail_to_webhook_agent_creates_delivery,
                message_to_webhook_agent_creates_delivery,
                deliveries_are_listed_in_due_order,
                excluded_agents_have_no_deliveries,
                only_first_delivery_of_a_lane_is_due,
                each_conversation_is_its_own_lane,
                unreachable_webhook_has_no_due_deliveries,
                removing_webhook_deletes_its_deliveries,
                finished_delivery_is_logged,
                delivery_can_be_delayed_or_hastened,
                deleting_mail_deletes_its_delivery,
                old_delivery_log_is_deleted,
                webhooks_survive_reopening,
            }
            commits {
                empty_commit_succeeds,
                failed_commit_changes_nothing,
                failure_affects_only_its_own_commit,
                changes_of_a_commit_see_each_other,
                commits_survive_reopening,
                queued_commits_finish_before_close,
                healthy_store_is_writable_and_undamaged,
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

/// Commits changes that must be refused, and returns the conflict.
async fn refusal(store: &dyn Store, changes: impl Into<Vec<Change>>) -> Conflict {
    match store.commit(changes.into()).await {
        Err(StoreError::Conflict(conflict)) => conflict,
        other => panic!("expected a conflict, got {other:?}"),
    }
}

/// Commits changes that must succeed.
async fn made(store: &dyn Store, changes: impl Into<Vec<Change>>) {
    store.commit(changes.into()).await.unwrap();
}

/// Commits every unit concurrently and returns the results in order.
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

/// Asserts that exactly one succeeded and all others got that conflict.
fn assert_one_winner(outcomes: &[Result<(), StoreError>], conflict: Conflict) {
    let won = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    let lost = outcomes.iter().filter(|outcome| **outcome == Err(StoreError::Conflict(conflict))).count();
    assert_eq!((won, lost), (1, outcomes.len() - 1), "{outcomes:?}");
}
