//! `key=value,key=value`, percent-encoded: headers and resource attributes.

/// One entry of a list, decoded, or what is wrong with it (never the value itself).
pub(super) type Pair = Result<(String, String), String>;

/// Reads a list. A value may hold `=`; space around keys and values does not count; empty entries are nothing.
pub(super) fn pairs(text: &str) -> impl Iterator<Item = Pair> + '_ {
    text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(|entry| {
        let Some((key, value)) = entry.split_once('=') else {
            // What stands there may be a secret without its name.
            return Err("an entry has no `=`".to_owned());
        };
        let key = decoded(key.trim()).map_err(|why| format!("a key {why}"))?;
        if key.is_empty() {
            return Err("an entry has no key".to_owned());
        }
        let value = decoded(value.trim()).map_err(|why| format!("the value of {key:?} {why}"))?;
        Ok((key, value))
    })
}

/// Percent-decodes a text. `+` stays what it is: this is no form.
fn decoded(text: &str) -> Result<String, &'static str> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err("has a % without two hex digits (write %25 for a %)"),
        }
    }
    String::from_utf8(bytes).map_err(|_| "is not UTF-8 once it is decoded")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn good(text: &str) -> Vec<(String, String)> {
        pairs(text).map(|pair| pair.unwrap()).collect()
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn reads_lists() {
        for (text, expected) in [
            ("", &[][..]),
            ("a=b", &[("a", "b")]),
            (" a = b , c=d,", &[("a", "b"), ("c", "d")]),
            ("authorization=Basic%20dTpw", &[("authorization", "Basic dTpw")]),
            ("authorization=Bearer a=b==", &[("authorization", "Bearer a=b==")]),
            ("key=%C3%A4%2C%3D%25", &[("key", "ä,=%")]),
            ("key=a+b", &[("key", "a+b")]),
            ("key=", &[("key", "")]),
            ("a%20b=c", &[("a b", "c")]),
        ] {
            assert_eq!(good(text), owned(expected), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong_without_the_value() {
        for text in ["secret", "=secret", "key=secret%2", "key=secret%zz", "key=secret%ff"] {
            let fault = pairs(text).next().unwrap().unwrap_err();
            assert!(!fault.contains("secret"), "{fault}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read_back(key in "[a-z.]{1,9}", value in "\\PC{0,20}") {
            let encoded: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
            prop_assert_eq!(good(&format!("{key}={encoded}")), vec![(key, value)]);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = pairs(&text).count();
        }
    }
}
