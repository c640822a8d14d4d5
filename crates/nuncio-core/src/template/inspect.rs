//! Lists the variables, filters, tests and functions that a template uses, each with its position.

use std::fmt;

use minijinja::machinery::ast::{CallArg, Expr, Stmt};
use minijinja::machinery::{Span, ast, parse};

/// A name that a template uses, at a byte offset in its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateReference {
    pub offset: usize,
    pub kind: TemplateReferenceKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateReferenceKind {
    Filter(String),
    Test(String),
    /// A called name: `range`, or `text.upper` for a method.
    Function(String),
    Variable(VariablePath),
}

/// A variable with the keys that follow it, such as `args.room.id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariablePath {
    pub root: String,
    /// Keys up to the first one that is computed.
    pub steps: Vec<VariablePathStep>,
    /// Whether the template also renders without the value here: it has a default, or its existence is tested in this
    /// expression or around it.
    pub is_guarded: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum VariablePathStep {
    Key(String),
    /// An item of a list.
    Index,
}

impl VariablePath {
    /// The keys as far as they are names: `room` and `id` for `args.room.id`.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map_while(|step| match step {
            VariablePathStep::Key(key) => Some(key.as_str()),
            VariablePathStep::Index => None,
        })
    }
}

impl fmt::Display for VariablePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root)?;
        self.keys().try_for_each(|key| write!(f, ".{key}"))
    }
}

/// Lists the names in a template, without its own variables; none for a text with a syntax error.
pub(super) fn names(text: &str) -> Vec<TemplateReference> {
    let Ok(root) = parse(text, "", Default::default(), Default::default()) else { return Vec::new() };
    let mut inspector =
        TemplateReferenceCollector { text, names: Vec::new(), guards: Vec::new(), assigned: vec![Vec::new()] };
    inspector.statement(&root);
    let mut names = inspector.names;
    names.sort_by_key(|name| name.offset);
    names
}

struct TemplateReferenceCollector<'t> {
    text: &'t str,
    names: Vec<TemplateReference>,
    /// Variables whose existence is tested around the current expression, or that have a default in it.
    guards: Vec<VariableUse<'t>>,
    /// Variables that the template itself defines, innermost block last.
    assigned: Vec<Vec<&'t str>>,
}

impl<'t> TemplateReferenceCollector<'t> {
    fn statement(&mut self, statement: &Stmt<'t>) {
        match statement {
            Stmt::Template(it) => self.block(&it.children),
            Stmt::EmitExpr(it) => self.expression(&it.expr),
            Stmt::EmitRaw(_) => {}
            Stmt::ForLoop(it) => {
                self.expression(&it.iter);
                self.assigned.push(vec!["loop"]);
                self.assign(&it.target);
                self.optional(it.filter_expr.as_ref());
                self.block(&it.body);
                self.assigned.pop();
                self.block(&it.else_body);
            }
            Stmt::IfCond(it) => {
                self.tested(&it.expr);
                self.where_condition_is(&it.expr, true, |inspector| inspector.block(&it.true_body));
                self.where_condition_is(&it.expr, false, |inspector| inspector.block(&it.false_body));
            }
            Stmt::WithBlock(it) => {
                self.assigned.push(Vec::new());
                for (target, value) in &it.assignments {
                    self.expression(value);
                    self.assign(target);
                }
                self.block(&it.body);
                self.assigned.pop();
            }
            Stmt::Set(it) => {
                self.expression(&it.expr);
                self.assign(&it.target);
            }
            Stmt::SetBlock(it) => {
                self.optional(it.filter.as_ref());
                self.block(&it.body);
                self.assign(&it.target);
            }
            Stmt::AutoEscape(it) => {
                self.expression(&it.enabled);
                self.block(&it.body);
            }
            Stmt::FilterBlock(it) => {
                self.expression(&it.filter);
                self.block(&it.body);
            }
            Stmt::Do(it) => self.call(&it.call, it.call.span()),
        }
    }

    fn block(&mut self, statements: &[Stmt<'t>]) {
        self.assigned.push(Vec::new());
        statements.iter().for_each(|statement| self.statement(statement));
        // A variable that a branch sets is visible after it, as far as this list is concerned: it is not an input.
        let inner = self.assigned.pop().unwrap_or_default();
        if let Some(outer) = self.assigned.last_mut() {
            outer.extend(inner);
        }
    }

    fn assign(&mut self, target: &Expr<'t>) {
        match target {
            Expr::Var(name) => self.assigned.iter_mut().rev().take(1).for_each(|names| names.push(name.id)),
            Expr::List(list) => list.items.iter().for_each(|item| self.assign(item)),
            other => self.expression(other),
        }
    }

    fn expression(&mut self, expression: &Expr<'t>) {
        match expression {
            Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_) => self.variable(expression),
            Expr::Const(_) => {}
            Expr::Slice(it) => {
                self.expression(&it.expr);
                for bound in [&it.start, &it.stop, &it.step] {
                    self.optional(bound.as_ref());
                }
            }
            Expr::UnaryOp(it) => self.expression(&it.expr),
            Expr::BinOp(it) if matches!(it.op, ast::BinOpKind::ScOr) => {
                self.tested(&it.left);
                self.where_condition_is(&it.left, false, |inspector| inspector.expression(&it.right));
            }
            // A missing left side is the value of the whole expression.
            Expr::BinOp(it) if matches!(it.op, ast::BinOpKind::ScAnd) => {
                self.expression(&it.left);
                self.where_condition_is(&it.left, true, |inspector| inspector.expression(&it.right));
            }
            Expr::BinOp(it) => {
                self.expression(&it.left);
                self.expression(&it.right);
            }
            Expr::Compare(it) => {
                self.expression(&it.expr);
                it.ops.iter().for_each(|operand| self.expression(&operand.expr));
            }
            Expr::IfExpr(it) => {
                self.tested(&it.test_expr);
                self.where_condition_is(&it.test_expr, true, |inspector| inspector.expression(&it.true_expr));
                self.where_condition_is(&it.test_expr, false, |inspector| inspector.optional(it.false_expr.as_ref()));
            }
            Expr::Filter(it) => {
                match &it.expr {
                    Some(value) if takes_missing_value(it.name) => {
                        self.tested(value);
                    }
                    value => self.optional(value.as_ref()),
                }
                let after = it.expr.as_ref().map_or(it.span().start_offset, |inner| inner.span().end_offset);
                self.push(self.find(after, it.name), TemplateReferenceKind::Filter(it.name.to_owned()));
                self.named_argument(it);
                self.arguments(&it.args);
            }
            Expr::Test(it) => {
                if tests_existence(it.name) {
                    self.tested(&it.expr);
                } else {
                    self.expression(&it.expr);
                }
                let offset = self.find(it.expr.span().end_offset, it.name);
                self.push(offset, TemplateReferenceKind::Test(it.name.to_owned()));
                self.arguments(&it.args);
            }
            Expr::Call(it) => self.call(it, it.span()),
            Expr::List(it) => it.items.iter().for_each(|item| self.expression(item)),
            Expr::Map(it) => it.keys.iter().chain(&it.values).for_each(|item| self.expression(item)),
        }
    }

    fn optional(&mut self, expression: Option<&Expr<'t>>) {
        if let Some(expression) = expression {
            self.expression(expression);
        }
    }

    fn arguments(&mut self, arguments: &[CallArg<'t>]) {
        for argument in arguments {
            let (CallArg::Pos(value)
            | CallArg::Kwarg(_, value)
            | CallArg::PosSplat(value)
            | CallArg::KwargSplat(value)) = argument;
            self.expression(value);
        }
    }

    /// The filter or test that another filter gets as a text: `map("upper")`, `select("odd")`.
    fn named_argument(&mut self, filter: &ast::Filter<'t>) {
        let (index, make): (_, fn(String) -> TemplateReferenceKind) = match filter.name {
            "map" => (0, TemplateReferenceKind::Filter),
            "select" | "reject" => (0, TemplateReferenceKind::Test),
            "selectattr" | "rejectattr" => (1, TemplateReferenceKind::Test),
            _ => return,
        };
        if let Some(CallArg::Pos(Expr::Const(constant))) = filter.args.get(index)
            && let Some(name) = constant.value.as_str()
        {
            self.push(offset_of(constant.span()), make(name.to_owned()));
        }
    }

    fn call(&mut self, call: &ast::Call<'t>, span: Span) {
        match &call.expr {
            Expr::Var(name) if !self.is_assigned(name.id) => {
                self.push(offset_of(name.span()), TemplateReferenceKind::Function(name.id.to_owned()));
            }
            Expr::Var(_) => {}
            Expr::GetAttr(method) => {
                // `loop` is the only object with methods that a template can have.
                if !matches!(&method.expr, Expr::Var(name) if self.is_assigned(name.id)) {
                    let receiver = read_variable(&method.expr);
                    let offset = receiver.as_ref().map_or(offset_of(span), |read| read.offset);
                    let receiver = receiver.map(|read| read.path().to_string()).unwrap_or_default();
                    self.push(offset, TemplateReferenceKind::Function(format!("{receiver}.{}", method.name)));
                }
                self.expression(&method.expr);
            }
            other => self.expression(other),
        }
        self.arguments(&call.args);
    }

    /// Inspects a condition, or the value of a filter or test that takes a missing one.
    fn tested(&mut self, condition: &Expr<'t>) {
        let outer = self.guards.len();
        collect_tested(condition, &mut self.guards);
        self.expression(condition);
        self.guards.truncate(outer);
    }

    /// Inspects what is only reached if the condition is `holds`.
    fn where_condition_is(&mut self, condition: &Expr<'t>, holds: bool, inspect: impl FnOnce(&mut Self)) {
        let outer = self.guards.len();
        collect_existing(condition, holds, &mut self.guards);
        inspect(self);
        self.guards.truncate(outer);
    }

    fn variable(&mut self, expression: &Expr<'t>) {
        match read_variable(expression) {
            Some(read) => {
                if !self.is_assigned(read.root) {
                    let is_guarded = self.guards.iter().any(|guard| guard.covers(&read));
                    self.push(read.offset, TemplateReferenceKind::Variable(VariablePath { is_guarded, ..read.path() }));
                }
                if read.is_computed {
                    self.subscripts(expression);
                }
            }
            None => match expression {
                Expr::GetAttr(it) => self.expression(&it.expr),
                Expr::GetItem(it) => {
                    self.expression(&it.expr);
                    self.expression(&it.subscript_expr);
                }
                _ => {}
            },
        }
    }

    /// Inspects the computed keys of a variable, as in `args[args.which]`.
    fn subscripts(&mut self, expression: &Expr<'t>) {
        match expression {
            Expr::GetAttr(it) => self.subscripts(&it.expr),
            Expr::GetItem(it) => {
                self.subscripts(&it.expr);
                self.expression(&it.subscript_expr);
            }
            _ => {}
        }
    }

    fn is_assigned(&self, name: &str) -> bool {
        self.assigned.iter().flatten().any(|assigned| *assigned == name)
    }

    /// Offset of `name` in the text from `start` on.
    fn find(&self, start: u32, name: &str) -> usize {
        let start = start as usize;
        let rest = self.text.get(start..).unwrap_or_default();
        start + rest.find(name).unwrap_or_default()
    }

    fn push(&mut self, offset: usize, kind: TemplateReferenceKind) {
        self.names.push(TemplateReference { offset, kind });
    }
}

/// A variable that an expression reads.
struct VariableUse<'t> {
    root: &'t str,
    offset: usize,
    steps: Vec<VariablePathStep>,
    /// Whether a computed key follows the steps.
    is_computed: bool,
}

/// Whether the filter takes a missing value; of one, `tojson` makes null.
fn takes_missing_value(filter: &str) -> bool {
    matches!(filter, "default" | "d" | "tojson")
}

fn tests_existence(test: &str) -> bool {
    matches!(test, "defined" | "undefined")
}

/// Collects the variables that a condition may read although they are missing.
fn collect_tested<'t>(condition: &Expr<'t>, tested: &mut Vec<VariableUse<'t>>) {
    match condition {
        Expr::UnaryOp(it) => collect_tested(&it.expr, tested),
        Expr::BinOp(it) if matches!(it.op, ast::BinOpKind::ScOr | ast::BinOpKind::ScAnd) => {
            collect_tested(&it.left, tested);
            collect_tested(&it.right, tested);
        }
        Expr::Test(it) if tests_existence(it.name) => collect_tested(&it.expr, tested),
        Expr::Filter(it) if takes_missing_value(it.name) => {
            it.expr.iter().for_each(|value| collect_tested(value, tested));
        }
        other => tested.extend(read_variable(other).filter(|read| !read.is_computed)),
    }
}

/// Collects the variables that exist if the condition is `holds`.
fn collect_existing<'t>(condition: &Expr<'t>, holds: bool, existing: &mut Vec<VariableUse<'t>>) {
    match (condition, holds) {
        (Expr::UnaryOp(it), _) if matches!(it.op, ast::UnaryOpKind::Not) => {
            collect_existing(&it.expr, !holds, existing);
        }
        (Expr::BinOp(it), true) if matches!(it.op, ast::BinOpKind::ScAnd) => {
            collect_existing(&it.left, true, existing);
            collect_existing(&it.right, true, existing);
        }
        (Expr::BinOp(it), false) if matches!(it.op, ast::BinOpKind::ScOr) => {
            collect_existing(&it.left, false, existing);
            collect_existing(&it.right, false, existing);
        }
        (Expr::Test(it), _) if tests_existence(it.name) && (it.name == "defined") == holds => {
            existing.extend(read_variable(&it.expr).filter(|read| !read.is_computed));
        }
        (Expr::Var(_) | Expr::GetAttr(_) | Expr::GetItem(_), true) => {
            existing.extend(read_variable(condition).filter(|read| !read.is_computed));
        }
        _ => {}
    }
}

impl VariableUse<'_> {
    /// Whether a test of this variable is also one of `other`: a test of `args.room` guards `args.room.id`.
    fn covers(&self, other: &VariableUse<'_>) -> bool {
        self.root == other.root && other.steps.starts_with(&self.steps)
    }

    fn path(&self) -> VariablePath {
        VariablePath { root: self.root.to_owned(), steps: self.steps.clone(), is_guarded: false }
    }
}

fn read_variable<'t>(expression: &Expr<'t>) -> Option<VariableUse<'t>> {
    match expression {
        Expr::Var(name) => {
            Some(VariableUse { root: name.id, offset: offset_of(name.span()), steps: Vec::new(), is_computed: false })
        }
        Expr::GetAttr(it) => {
            let mut read = read_variable(&it.expr)?;
            if !read.is_computed {
                read.steps.push(VariablePathStep::Key(it.name.to_owned()));
            }
            Some(read)
        }
        Expr::GetItem(it) => {
            let mut read = read_variable(&it.expr)?;
            let constant = it.subscript_expr.as_const();
            let step = match &constant {
                Some(value) if value.as_str().is_some() => {
                    value.as_str().map(|key| VariablePathStep::Key(key.to_owned()))
                }
                Some(value) if value.is_number() => Some(VariablePathStep::Index),
                _ => None,
            };
            read.is_computed |= step.is_none();
            if !read.is_computed {
                read.steps.extend(step);
            }
            Some(read)
        }
        _ => None,
    }
}

fn offset_of(span: Span) -> usize {
    span.start_offset as usize
}
