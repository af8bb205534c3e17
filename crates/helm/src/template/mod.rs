//! Go's `text/template` language: lexer, parser, evaluator.

pub(crate) mod ast;
pub(crate) mod exec;
pub(crate) mod lex;
pub(crate) mod methods;
pub(crate) mod parse;
mod show;
