#pragma once

// Whether a layout can be: the model splits so, the engine has it, the machine has numbers for it.

#include "planner/lower/engine.h"
#include "planner/plan/plan.h"

namespace xt {

/// Tells `request` of every field whose value its model, its engine or its machine cannot have.
///
/// Assumes: the counts of plan.strategy are chosen; layers and chunks need not be
void check(const Plan& plan, const EngineRules& rules, Request& request);

/// The same of how ops run, what of them runs again, and in which type gradients are reduced.
void check_kernels(const Plan& plan, const EngineRules& rules, Request& request);

/// The same of tokens that a model predicts beyond the next one.
void check_further_tokens(const Plan& plan, const EngineRules& rules, Request& request);

/// The same of exchanges of rows behind another micro-step.
void check_pairs(const Plan& plan, const EngineRules& rules, Request& request);

/// The same of steps in which no exchange overlaps anything.
void check_overlap(const Plan& plan, const EngineRules& rules, Request& request);

/// The same of weights, moments and updates on the host.
void check_offload(const Plan& plan, const EngineRules& rules, Request& request);

/// The same of recipes of fp8, and of exchanges that run in pieces beside products.
void check_transformer_engine(const Plan& plan, const EngineRules& rules, Request& request);

/// The same of the optimizer and of the learning rate over steps.
void check_optimizer(const Plan& plan, const EngineRules& rules, Request& request);

/// The same of attention, fused or not.
void check_attention(const Plan& plan, const EngineRules& rules, Request& request);

/// Checks that an engine that is executed computes what the model has.
void check_executed(const Plan& plan, const EngineRules& rules, Request& request);

/// The same of the stages of a pipeline, which all other counts are of one of.
void check_pipeline(const Plan& plan, const EngineRules& rules, Request& request);

/// The same of layers that a user gives each part of the model.
void check_cut(const Plan& plan, const EngineRules& rules, Request& request);

/// The same of backward passes in two halves.
void check_zero_bubble(const Plan& plan, const EngineRules& rules, Request& request);

/// Reports stages that would have no layer where an engine balances them.
///
/// Assumes: a plan without other problems
void check_balance(const Plan& plan, const EngineRules& rules, Request& request);

}  // namespace xt
