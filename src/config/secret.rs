//! Options whose values nobody else may see.

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::str::FromStr;

/// Reads a value that may hold a password. What is wrong with it is said without showing it, as clap would.
pub struct Secret<T>(PhantomData<fn() -> T>);

impl<T> Secret<T> {
    /// A reader of such values.
    pub fn parser() -> Self {
        Self(PhantomData)
    }
}

impl<T> Clone for Secret<T> {
    fn clone(&self) -> Self {
        Self::parser()
    }
}

impl<T: FromStr<Err = &'static str> + Clone + Send + Sync + 'static> TypedValueParser for Secret<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let parsed = value.to_str().ok_or("must be UTF-8").and_then(str::parse);
        parsed.map_err(|why| {
            let name = arg.and_then(Arg::get_long).unwrap_or_default();
            Error::raw(ErrorKind::ValueValidation, format!("--{name} {why}\n")).with_cmd(command)
        })
    }
}
