#pragma once

// How well a text can be predicted from one token back: what a model must beat to have learned more
// than pairs.

#include "executor/data/documents.h"

namespace xt {

/// The conditional entropy of a token given the one before it in its document, over the text
/// itself, in nats; 0 if no document has two tokens.
///
///   − Σ n(a,b) / N · ln( n(a,b) / n(a) )
///
/// Source: Shannon 1951, "Prediction and entropy of printed English", Bell System Technical
///         Journal 30, equation 1 with N = 2
double bigram_entropy(const Documents& documents);

}  // namespace xt
