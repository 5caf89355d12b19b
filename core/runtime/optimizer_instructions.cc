// Gradient reduction and the optimizer step.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/ops/adamw.h"
#include "core/runtime/instruction_name.h"
#include "core/runtime/rank_executor.h"

namespace dpipe {

absl::Status RankExecutor::ReduceGrads(const Instruction& instruction) {
  nn::ParameterSet* parameters = resources_.stage_parameters[instruction.stage()];
  const auto [begin, end] =
      backbone().ParameterRange({instruction.layers().begin(), instruction.layers().end()});
  std::vector<Tensor> grads;
  for (nn::ParameterId id : parameters->trainable_ids()) {
    if (begin <= id.value() && id.value() < end) grads.push_back(*parameters->grad(id));
  }
  std::vector<Rank> group;
  for (int rank : stage(instruction.stage()).ranks()) group.push_back(Rank(rank));
  return resources_.communicator->AllReduceSum(group, absl::MakeSpan(grads),
                                               InstructionName(*resources_.plan, instruction));
}

absl::Status RankExecutor::OptimizerStep(int64_t step) {
  double global_norm = -1;
  if (resources_.plan->global_norm()) {
    // One slot a parameter of the whole backbone. Of a stage's replicas, which hold the same
    // gradients, the first one speaks; all others add zeros, and so the sum's bits do not depend on
    // the partition.
    std::vector<double> squares(backbone().num_parameters(), 0.0);
    for (int s = 0; s < resources_.plan->stages_size(); ++s) {
      const nn::ParameterSet* parameters = resources_.stage_parameters[s];
      if (parameters == nullptr || Rank(stage(s).ranks(0)) != rank_) continue;
      for (nn::ParameterId id : parameters->trainable_ids()) {
        DPIPE_ASSIGN_OR_RETURN(squares[id.value()], ops::SumOfSquares(parameters->grad(id)));
      }
    }
    Record(step, TraceEvent::COMPUTE);  // the waiting that follows is no work
    DPIPE_RETURN_IF_ERROR(resources_.communicator->AllReduceSum(absl::MakeSpan(squares),
                                                                "the gradients' global norm"));
    double sum = 0;
    for (double square : squares) sum += square;
    global_norm = std::sqrt(sum);
    MarkStart();
  }
  for (int s = 0; s < resources_.plan->stages_size(); ++s) {
    nn::ParameterSet* parameters = resources_.stage_parameters[s];
    if (parameters == nullptr) continue;
    DPIPE_RETURN_IF_ERROR(optimizers_[s]->Step(step, global_norm, parameters));
    parameters->ZeroGrads();
  }
  frozen_.DropThrough(step);
  return absl::OkStatus();
}

}  // namespace dpipe
