#pragma once

// The communicator of a group of one: every collective is a copy or nothing, done at once.

#include <memory>

#include "executor/communicators/communicator.h"

namespace xt {

/// A group that holds only this rank.
std::unique_ptr<Communicator> single_rank_communicator();

}  // namespace xt
