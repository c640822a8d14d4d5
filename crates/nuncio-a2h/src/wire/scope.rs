//! Well-known scopes with their texts: `GET /a2h/scopes` (A2H §6).

use nuncio_core::agent::Sensitivity;
use nuncio_core::ids::ScopeId;
use nuncio_core::manifest::ScopePresets;
use nuncio_core::text::TextByLanguage;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
pub struct ScopeView {
    pub id: ScopeId,
    /// Minimum sensitivity of the scope.
    pub sensitivity: Sensitivity,
    pub label_i18n_key: String,
    /// Label of the scope by language.
    pub label: TextByLanguage,
    pub description_i18n_key: String,
    pub description: TextByLanguage,
}

#[must_use]
pub fn bundle(presets: &ScopePresets) -> Vec<ScopeView> {
    let view = |scope: &nuncio_core::manifest::presets::PresetScope| ScopeView {
        id: scope.id.clone(),
        sensitivity: presets.floor(scope.id.as_str()).unwrap_or(scope.sensitivity),
        label_i18n_key: scope.label_i18n_key.clone(),
        label: scope.label.clone(),
        description_i18n_key: scope.description_i18n_key.clone(),
        description: scope.description.clone(),
    };
    presets.scopes().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers every row of the scope table in A2H §6.
    #[test]
    fn scope_list_has_the_four_presets_with_labels_and_sensitivities() {
        let bundle = bundle(&ScopePresets::default());
        let rows: Vec<_> = bundle
            .iter()
            .map(|scope| (scope.id.as_str(), scope.label.in_language("zh-CN"), scope.sensitivity.as_str()))
            .collect();
        assert_eq!(
            rows,
            [
                ("clipboard:read", "读取剪贴板", "medium"),
                ("filesystem:read", "读取本地文件", "medium"),
                ("location:read", "读取位置", "high"),
                ("notification:send", "发送系统通知", "low"),
            ]
        );
        assert_eq!(bundle[1].label_i18n_key, "agent.scope.filesystem_read.label");
    }
}
