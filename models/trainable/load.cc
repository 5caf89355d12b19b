#include "models/trainable/load.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/run_paths.h"
#include "models/cascade/cascade.h"
#include "models/controlnet/trainable.h"
#include "models/stable_diffusion/trainable.h"

namespace dpipe::models {
namespace {

std::string KindNames() {
  return absl::StrJoin(ModelKinds(), ", ", [](std::string* out, const ModelKind& kind) {
    absl::StrAppend(out, kind.name);
  });
}

absl::StatusOr<const ModelKind*> KindNamed(const std::string& name) {
  for (const ModelKind& kind : ModelKinds()) {
    if (kind.name == name) return &kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown kind of model '", name, "'; there are ", KindNames()));
}

absl::StatusOr<const ModelKind*> KindOf(const std::string& folder) {
  DPIPE_ASSIGN_OR_RETURN(const ModelIndex index, ReadModelIndex(folder));
  for (const ModelKind& kind : ModelKinds()) {
    if (kind.matches(index)) return &kind;
  }
  return absl::InvalidArgumentError(absl::StrCat(folder, "/model_index.json: a ", index.class_name,
                                                 " is none of the kinds of model that can be "
                                                 "trained, which are ",
                                                 KindNames()));
}

}  // namespace

const std::vector<ModelKind>& ModelKinds() {
  static const auto* const kinds =
      new std::vector<ModelKind>({StableDiffusionKind(), ControlNetKind(), CascadeKind()});
  return *kinds;
}

absl::StatusOr<const ModelKind*> FindModelKind(const std::string& folder, const std::string& kind) {
  // Also where the kind is named: what is not a model's folder is told so.
  if (!IsFolder(folder)) DPIPE_RETURN_IF_ERROR(ReadModelIndex(folder).status());
  return kind.empty() ? KindOf(folder) : KindNamed(kind);
}

absl::StatusOr<std::unique_ptr<TrainableModel>> LoadTrainableModel(
    const std::string& folder, const LoadModelOptions& options) {
  DPIPE_ASSIGN_OR_RETURN(const ModelKind* kind, FindModelKind(folder, options.kind));
  if (options.lora.rank > 0 && kind->name != "stable_diffusion") {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, " is a model of kind ", kind->name,
                     "; low-rank adapters can be trained of stable_diffusion only"));
  }
  return kind->load(folder, options);
}

}  // namespace dpipe::models
