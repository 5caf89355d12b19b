// The first and the last step of a training program by flow matching; flow_schedule.h has the
// definitions.
#ifndef DPIPE_MODELS_DIFFUSION_FLOW_NODES_H_
#define DPIPE_MODELS_DIFFUSION_FLOW_NODES_H_

#include "core/nn/program_builder.h"
#include "models/diffusion/flow_matching.h"

namespace dpipe::diffusion {

// x0, noise [...] in fp32, level fp32 [] -> (1 - s) x0 + s noise [...] in the compute dtype. Its
// inputs get no gradient.
ValueId AddFlowNoising(nn::ProgramBuilder* builder, ValueId x0, ValueId noise, ValueId level);

struct FlowLossInputs {
  ValueId prediction;  // in the compute dtype
  ValueId x0, noise;   // fp32
  ValueId level;       // fp32 []; not read if all levels weigh the same
};

// Adds a sample's mean squared error against noise - x0, times its weight, fp32 []. Only the
// prediction gets a gradient.
ValueId AddFlowLoss(nn::ProgramBuilder* builder, FlowWeight weight, const FlowLossInputs& inputs);

}  // namespace dpipe::diffusion

#endif  // DPIPE_MODELS_DIFFUSION_FLOW_NODES_H_
