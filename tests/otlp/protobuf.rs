//! As much of protobuf as it takes to read what a collector is sent: numbers of fields, and their bytes.

/// A value of a field.
#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// A message: its fields by their numbers, in their order.
#[derive(Debug, Clone)]
pub struct Message<'a>(Vec<(u64, Value<'a>)>);

impl<'a> Message<'a> {
    /// Panics if these bytes are no message.
    pub fn read(mut bytes: &'a [u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = match tag & 7 {
                0 => Value::Number(varint(&mut bytes)),
                1 => Value::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let length = varint(&mut bytes);
                    Value::Bytes(take(&mut bytes, usize::try_from(length).unwrap()))
                }
                5 => Value::Number(u32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap()).into()),
                wire => panic!("wire type {wire}"),
            };
            fields.push((tag >> 3, value));
        }
        Self(fields)
    }

    fn all(&self, field: u64) -> impl Iterator<Item = Value<'a>> + use<'a, '_> {
        self.0.iter().filter(move |(number, _)| *number == field).map(|(_, value)| *value)
    }

    /// Each message that a field holds.
    pub fn messages(&self, field: u64) -> impl Iterator<Item = Message<'a>> + use<'a, '_> {
        self.all(field).map(move |value| match value {
            Value::Bytes(bytes) => Self::read(bytes),
            Value::Number(number) => panic!("field {field} is {number}"),
        })
    }

    /// The bytes of a field; none where it is not there.
    pub fn bytes(&self, field: u64) -> &'a [u8] {
        match self.all(field).last() {
            Some(Value::Bytes(bytes)) => bytes,
            _ => &[],
        }
    }

    /// The number of a field; 0 where it is not there.
    pub fn number(&self, field: u64) -> u64 {
        match self.all(field).last() {
            Some(Value::Number(number)) => number,
            _ => 0,
        }
    }

    /// The text of a field.
    pub fn text(&self, field: u64) -> String {
        String::from_utf8(self.bytes(field).to_vec()).unwrap()
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for place in 0..10 {
        let byte = take(bytes, 1)[0];
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            break;
        }
    }
    number
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, left) = bytes.split_at(count);
    *bytes = left;
    taken
}
