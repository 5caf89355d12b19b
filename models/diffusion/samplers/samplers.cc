#include "models/diffusion/samplers/samplers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/check.h"
#include "core/base/text/json.h"
#include "core/base/text/show.h"

namespace dpipe::diffusion {
namespace {

std::string Names() {
  return absl::StrJoin(Samplers(), ", ", [](std::string* out, const SamplerInfo& info) {
    absl::StrAppend(out, info.name);
  });
}

const SamplerInfo* FindByClass(const std::string& scheduler_class) {
  for (const SamplerInfo& info : Samplers()) {
    if (std::count(info.classes.begin(), info.classes.end(), scheduler_class) > 0) return &info;
  }
  return nullptr;
}

bool IsFollowed(const nlohmann::json& value, const FollowedKey& key) {
  return value.is_null() ||
         std::any_of(key.values.begin(), key.values.end(), [&value](const std::string& text) {
           const auto followed = ParseJson(text, "followed");
           DPIPE_CHECK(followed.ok()) << followed.status();
           return *followed == value;
         });
}

}  // namespace

const std::vector<SamplerInfo>& Samplers() {
  static const auto* const kSamplers = new std::vector<SamplerInfo>{
      DdimSampler(),           DdpmSampler(), DpmSolverSampler(), EulerSampler(),
      EulerAncestralSampler(), LcmSampler(),  PndmSampler(),      UniPcSampler()};
  return *kSamplers;
}

const SamplerInfo& SamplerOf(SamplerKind kind) {
  const auto it = std::find_if(Samplers().begin(), Samplers().end(),
                               [kind](const SamplerInfo& info) { return info.kind == kind; });
  DPIPE_CHECK(it != Samplers().end()) << "unknown sampler kind";
  return *it;
}

absl::StatusOr<std::optional<SamplerKind>> ParseSampler(absl::string_view name) {
  if (name == "folder") return std::nullopt;
  for (const SamplerInfo& info : Samplers()) {
    if (info.name == name) return info.kind;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown sampler '", ShowText(name),
                                                 "'; there are folder (the scheduler of the "
                                                 "model's folder), ",
                                                 Names()));
}

SamplerChoice ChooseSampler(const NoiseScheduleOptions& options,
                            std::optional<SamplerKind> wanted) {
  if (!wanted.has_value()) {
    const std::string& name = options.scheduler_class;
    const SamplerInfo* own = name.empty() ? &SamplerOf(SamplerKind::kDdim) : FindByClass(name);
    if (own == nullptr) {
      return {SamplerKind::kDdim, absl::StrCat("the folder's scheduler is a ", ShowText(name),
                                               ", which has no sampler here; pictures are drawn "
                                               "with ddim instead (there are ",
                                               Names(), ")")};
    }
    wanted = own->kind;
  }
  const SamplerInfo& info = SamplerOf(*wanted);
  if (!info.draws_from_x0 && options.prediction_type == PredictionType::kSample) {
    return {SamplerKind::kDdim,
            absl::StrCat(info.name,
                         " does not draw from a model with the prediction_type sample; "
                         "pictures are drawn with ddim instead")};
  }
  const std::vector<std::string> keys = KeysNotFollowed(options, info.kind);
  if (keys.empty()) return {info.kind, ""};
  return {info.kind, absl::StrCat("the sampler ", info.name,
                                  " does not follow these keys of scheduler_config.json: ",
                                  ShowNames(keys, /*max_names=*/3))};
}

std::vector<std::string> KeysNotFollowed(const NoiseScheduleOptions& options, SamplerKind kind) {
  const auto config = ParseJsonObject(options.json, "scheduler_config.json");
  if (!config.ok()) return {};
  std::vector<std::string> others;
  for (const FollowedKey& key : SamplerOf(kind).followed) {
    const auto it = config->find(key.key);
    if (it == config->end() || IsFollowed(*it, key)) continue;
    others.push_back(absl::StrCat(key.key, " is ", ShowText(ShowJson(*it), /*max_bytes=*/30)));
  }
  return others;
}

absl::StatusOr<std::unique_ptr<Solver>> MakeSolver(SamplerKind kind, const SolverSetup& setup) {
  return SamplerOf(kind).make(setup);
}

}  // namespace dpipe::diffusion
