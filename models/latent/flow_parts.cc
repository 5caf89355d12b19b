#include "models/latent/flow_parts.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe::models {

absl::Status ReadFlowObjective(const LoadModelOptions& options, const std::string& family,
                               const diffusion::FlowObjectiveOptions& objective,
                               LatentParts* parts) {
  const char* what = options.self_conditioning   ? "self-conditioning"
                     : options.coordinates       ? "training on patches"
                     : options.min_snr_gamma > 0 ? "min-SNR weighting"
                                                 : nullptr;
  if (what != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        parts->folder.path(), ": ", what, " is not supported for ", family, "; leave it out"));
  }
  DPIPE_ASSIGN_OR_RETURN(
      parts->scheduler,
      ReadSchedulerFile(parts->folder, {options.prediction_type, options.zero_terminal_snr}));
  if (!parts->scheduler.note.empty()) parts->notes.push_back(parts->scheduler.note);
  DPIPE_ASSIGN_OR_RETURN(const diffusion::FlowSchedule schedule, FlowScheduleOf(parts->scheduler));
  diffusion::FlowObjectiveOptions chosen = objective;
  chosen.training = options.flow_sampling;
  chosen.training.density = options.flow_density.value_or(objective.training.density);
  chosen.weight = options.flow_weight;
  DPIPE_ASSIGN_OR_RETURN(diffusion::FlowObjective flow,
                         diffusion::FlowObjective::Create(schedule, chosen));
  parts->objective = std::make_shared<diffusion::FlowObjective>(std::move(flow));
  return absl::OkStatus();
}

}  // namespace dpipe::models
