//! The tokens of a microbatch, as the kernels read them.
#![forbid(unsafe_code)]

/// Tokens, the row numbers sorted by token, and the first position of each token's run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// `len` tokens, `len` row numbers ordered by token, `runs + 1` beginnings among these.
    pub(crate) words: Vec<u32>,
    /// Number of tokens.
    pub(crate) len: usize,
    /// Number of distinct tokens.
    pub(crate) runs: usize,
    /// The greatest token.
    pub(crate) greatest: Option<u32>,
}

/// Lays `tokens` out. The gradient of an embedding is the sum over the rows with its token: in a
/// fixed order, so that it is deterministic. `None` beyond 32-bit row numbers.
pub(crate) fn lay_out(tokens: &[u32]) -> Option<Layout> {
    let len = u32::try_from(tokens.len()).ok()?;
    let mut order: Vec<u32> = (0..len).collect();
    let token = |row: u32| tokens[row as usize];
    order.sort_by_key(|row| token(*row));
    let begins =
        |at: &u32| *at == 0 || token(order[*at as usize]) != token(order[*at as usize - 1]);
    let mut starts: Vec<u32> = (0..len).filter(begins).collect();
    let runs = starts.len();
    starts.push(len);
    let words = [tokens, &order, &starts].concat();
    Some(Layout { words, len: tokens.len(), runs, greatest: tokens.iter().max().copied() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_lie_together_by_token_in_their_order() {
        let layout = lay_out(&[5, 2, 5, 9, 2, 5]).unwrap();
        assert_eq!(layout.words[..6], [5, 2, 5, 9, 2, 5]);
        assert_eq!(layout.words[6..12], [1, 4, 0, 2, 5, 3]);
        assert_eq!(layout.words[12..], [0, 2, 5, 6]);
        assert_eq!((layout.runs, layout.greatest), (3, Some(9)));
    }

    #[test]
    fn no_tokens_have_no_runs() {
        let layout = lay_out(&[]).unwrap();
        assert_eq!((layout.words, layout.runs, layout.greatest), (vec![0], 0, None));
    }
}
