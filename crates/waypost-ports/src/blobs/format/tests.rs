use super::*;

const MIB: usize = PART_BYTES;

/// Content that does not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Hasher::new().update(b"noise").finalize_xof().fill(&mut content);
    content
}

fn stored(content: &[u8]) -> (BlobRef, Index, Vec<Vec<u8>>) {
    let mut parts = Vec::new();
    let (blob, index) = encode(&mut &*content, u64::MAX, |part| {
        parts.push(part.to_vec());
        Ok(())
    })
    .unwrap();
    (blob, index, parts)
}

#[test]
fn content_of_any_length_is_named_by_its_digest_and_read_back() {
    for bytes in [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 5 * MIB + 7, 8 * MIB]
    {
        let content = noise(bytes);
        let (blob, index, parts) = stored(&content);
        assert_eq!(blob, BlobRef { digest: BlobDigest::of(&content), bytes: bytes as u64 });
        let index = Index::decode(&blob.digest, &index.encode()).unwrap();
        assert_eq!(parts.len(), bytes.div_ceil(MIB));
        let read: Vec<u8> = (parts.into_iter().enumerate())
            .flat_map(|(n, part)| index.open(&blob.digest, n, part).unwrap())
            .collect();
        assert!(read == content, "{bytes} bytes");
    }
}

#[test]
fn parts_are_compressed_where_that_helps() {
    let (_, index, parts) = stored(&vec![b'x'; MIB + 10]);
    assert!(index.stored_bytes() < 1_000);
    assert_eq!(index.stored_at(1), parts[0].len() as u64..index.stored_bytes());
    let (_, index, _) = stored(&noise(MIB));
    assert_eq!(index.stored_bytes(), MIB as u64);
}

#[test]
fn every_changed_byte_of_an_index_is_found() {
    let (blob, index, _) = stored(&noise(2 * MIB + 5));
    let whole = index.encode();
    assert_eq!(Index::length(&whole[whole.len() - FOOTER_BYTES..]), Some(whole.len()));
    for at in 0..whole.len() {
        let mut spoilt = whole.clone();
        spoilt[at] ^= 1;
        let read = Index::decode(&blob.digest, &spoilt);
        assert!(matches!(read, Err(BlobError::Corrupt { .. })), "byte {at}");
    }
    for bytes in [0, 7, 23, 24, whole.len() - 1] {
        assert!(Index::decode(&blob.digest, &whole[..bytes]).is_err(), "{bytes} bytes");
    }
    assert!(Index::decode(&BlobDigest::of(b"other"), &whole).is_err());
}

#[test]
fn changed_exchanged_and_shortened_parts_are_found() {
    for content in [noise(2 * MIB + 5), vec![b'x'; 2 * MIB + 5], noise(5), vec![b'x'; 500]] {
        let (blob, index, parts) = stored(&content);
        for (n, part) in parts.iter().enumerate() {
            let corrupt = |bytes: Vec<u8>| {
                let read = index.open(&blob.digest, n, bytes);
                assert!(
                    matches!(read, Err(BlobError::Corrupt { digest, .. }) if digest == blob.digest)
                );
            };
            let mut spoilt = part.clone();
            *spoilt.last_mut().unwrap() ^= 1;
            corrupt(spoilt);
            corrupt(part[1..].to_vec());
            corrupt(Vec::new());
        }
    }
    let (blob, index, parts) = stored(&noise(2 * MIB));
    assert!(index.open(&blob.digest, 0, parts[1].clone()).is_err());
}

#[test]
fn content_above_the_limit_is_refused_with_the_part_that_exceeds_it() {
    let mut parts = 0;
    let count = |_: &[u8]| {
        parts += 1;
        Ok(())
    };
    let put = encode(&mut std::io::repeat(7), 2 * MIB as u64, count);
    assert_eq!(put, Err(BlobError::TooLarge { limit: 2 * MIB as u64 }));
    assert_eq!(parts, 2);
    assert!(encode(&mut &noise(10)[..], 10, |_| Ok(())).is_ok());
}

#[test]
fn a_part_that_would_decompress_to_more_than_a_part_is_refused() {
    let (blob, index, _) = stored(&vec![b'x'; MIB]);
    let bomb = zstd::bulk::compress(&vec![b'x'; 64 * MIB], LEVEL).unwrap();
    assert!(index.open(&blob.digest, 0, bomb).is_err());
}
