#pragma once

// Rows and predictions made by hand, for tests of what is said of them.

#include <string>

#include "planner/validate/validate.h"

namespace xt::test {

/// A dense row on one device that may be held against nothing yet.
inline PublishedRow row_of(const std::string& id) {
  PublishedRow row;
  row.id = id;
  row.machine = "h100_sxm";
  row.framework_family = "fsdp2";
  row.framework = "some FSDP2";
  row.precision = "bf16";
  return row;
}

/// `row`, measured to consume so many tokens per device and second.
inline PublishedRow with_tokens(PublishedRow row, double tokens_per_device_s) {
  row.measured.tokens_per_device_s = tokens_per_device_s;
  row.usable_for.push_back(Use::time);
  return row;
}

/// `row`, measured to peak at so many bytes of `kind`.
inline PublishedRow with_memory(PublishedRow row, std::int64_t bytes,
                                std::optional<MemoryKind> kind) {
  row.measured.peak_memory_bytes = bytes;
  row.measured.memory_kind = kind;
  row.usable_for.push_back(Use::memory);
  return row;
}

/// `row`, which ran out of memory.
inline PublishedRow with_oom(PublishedRow row) {
  row.measured.oom = true;
  row.usable_for.push_back(Use::oom);
  return row;
}

/// A prediction of so many tokens per device and second, 100 bytes allocated, 120 reserved,
/// 20 beside.
inline RowOutcome outcome_of(double tokens_per_device_s, double flops_per_token = 1) {
  RowPrediction predicted;
  predicted.tokens_per_device_s = tokens_per_device_s;
  predicted.allocated = Bytes(100);
  predicted.reserved = Bytes(120);
  predicted.beside = Bytes(20);
  predicted.hardware_flops_per_token = flops_per_token;
  return {predicted};
}

/// A prediction that does not fit.
inline RowOutcome outcome_too_large() {
  RowOutcome outcome = outcome_of(1);
  outcome.predicted->fits = false;
  return outcome;
}

}  // namespace xt::test
