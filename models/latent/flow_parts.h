// The objective of families that are trained by flow matching.
#ifndef DPIPE_MODELS_LATENT_FLOW_PARTS_H_
#define DPIPE_MODELS_LATENT_FLOW_PARTS_H_

#include <string>

#include "core/base/status.h"
#include "models/diffusion/flow_objective.h"
#include "models/folder/load_options.h"
#include "models/latent/latent_parts.h"

namespace dpipe::models {

// `objective` is the family's own; options.flow_density and its neighbours change it. Reads the
// folder's scheduler; sets parts->scheduler and parts->objective, and adds to its notes.
// Returns InvalidArgument with the file if the scheduler is not one of flow matching, and for
// options that `family` lacks: self-conditioning, coordinates, min-SNR weights, a prediction type,
// a terminal SNR.
absl::Status ReadFlowObjective(const LoadModelOptions& options, const std::string& family,
                               const diffusion::FlowObjectiveOptions& objective,
                               LatentParts* parts);

}  // namespace dpipe::models

#endif  // DPIPE_MODELS_LATENT_FLOW_PARTS_H_
