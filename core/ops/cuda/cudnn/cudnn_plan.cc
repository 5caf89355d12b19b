#include "core/ops/cuda/cudnn/cudnn_plan.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/base/phases.h"

namespace dpipe::ops::cuda {
namespace {

constexpr int64_t kMaxConfigs = 32;

}  // namespace

absl::StatusOr<std::unique_ptr<CudnnPlan>> CudnnPlan::Create(const CudnnTarget& target,
                                                             std::unique_ptr<CudnnGraph> graph,
                                                             bool exact_fp32) {
  DPIPE_ASSIGN_OR_RETURN(CudnnEngines engines,
                         CudnnEngines::For(target, std::move(graph), exact_fp32));
  return engines.Next();
}

absl::StatusOr<CudnnEngines> CudnnEngines::For(const CudnnTarget& target,
                                               std::unique_ptr<CudnnGraph> graph, bool exact_fp32) {
  DPIPE_RETURN_IF_ERROR(graph->status());
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor* operation : graph->operations()) {
    operations.push_back(operation->get());
  }
  auto operation_graph =
      std::make_shared<CudnnDescriptor>(graph->api(), CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  operation_graph->Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                       operations.data(), static_cast<int64_t>(operations.size()));
  const cudnnHandle_t handle = target.handle();
  if (handle != nullptr) {
    operation_graph->Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &handle);
  }
  DPIPE_RETURN_IF_ERROR(operation_graph->Finalize());
  return CudnnEngines(target, std::move(graph), std::move(operation_graph), exact_fp32);
}

bool CudnnEngines::Fill() {
  constexpr cudnnBackendHeurMode_t kModes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
  if (next_mode_ == std::size(kModes)) return false;
  const cudnnBackendHeurMode_t mode = kModes[next_mode_++];
  const Phase phase("cuDNN's heuristics");
  const CudnnApi& api = graph_->api();
  CudnnDescriptor heuristics(api, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *operation_graph_)
      .Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
  if (target_.properties() != nullptr) {
    heuristics.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target_.properties());
  }
  absl::Status named = heuristics.Finalize();
  std::vector<std::unique_ptr<CudnnDescriptor>> configs;
  int64_t found = 0;
  if (named.ok()) {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (int64_t i = 0; i < kMaxConfigs; ++i) {
      configs.push_back(std::make_unique<CudnnDescriptor>(api, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
      raw.push_back(configs.back()->get());
    }
    named = CudnnStatus(api,
                        api.cudnnBackendGetAttribute(
                            heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, kMaxConfigs, &found, raw.data()),
                        "reading the engines from cuDNN's heuristics");
  }
  if (!named.ok()) Keep(named);
  for (int64_t i = 0; named.ok() && i < std::min(found, kMaxConfigs); ++i) {
    configs_.push_back(std::move(configs[i]));
  }
  return true;
}

void CudnnEngines::Keep(const absl::Status& refused) {
  if (absl::IsUnimplemented(refused)) {
    refusal_ = refused;
  } else if (error_.ok()) {
    error_ = refused;
  }
}

// Properties that an engine reports.
struct CudnnEngines::Notes {
  bool exact = true;      // as deterministic and accurate as required
  bool compiles = false;  // its kernel is compiled when a plan is created, which takes seconds
};

absl::StatusOr<std::string> CudnnEngines::NameOf(const CudnnDescriptor& config,
                                                 Notes* notes) const {
  const CudnnApi& api = graph_->api();
  const auto get = [&api](cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t max_count, int64_t* count,
                          void* values) {
    return CudnnStatus(api,
                       api.cudnnBackendGetAttribute(from, name, type, max_count, count, values),
                       absl::StrCat("attribute ", name, " of an engine"), /*describing=*/true);
  };
  CudnnDescriptor engine(api, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0, number = 0;
  DPIPE_RETURN_IF_ERROR(get(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw));
  DPIPE_RETURN_IF_ERROR(
      get(raw, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count, &number));
  std::string name = absl::StrCat(number, ",");

  std::vector<std::unique_ptr<CudnnDescriptor>> settings;
  std::vector<cudnnBackendDescriptor_t> raw_settings;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) {
    settings.push_back(
        std::make_unique<CudnnDescriptor>(api, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR));
    raw_settings.push_back(settings.back()->get());
  }
  int64_t num_settings = 0;
  DPIPE_RETURN_IF_ERROR(get(config.get(), CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                            CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS, &num_settings,
                            raw_settings.data()));
  for (int64_t i = 0; i < num_settings; ++i) {
    cudnnBackendKnobType_t type = {};
    int64_t value = 0;
    DPIPE_RETURN_IF_ERROR(get(raw_settings[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                              CUDNN_TYPE_KNOB_TYPE, 1, &count, &type));
    DPIPE_RETURN_IF_ERROR(get(raw_settings[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64,
                              1, &count, &value));
    absl::StrAppend(&name, " ", type, ":", value);
  }

  cudnnBackendNumericalNote_t numerical[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  DPIPE_RETURN_IF_ERROR(get(raw, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                            CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, numerical));
  for (int64_t i = 0; i < count; ++i) {
    switch (numerical[i]) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        if (!graph_->nondeterministic()) notes->exact = false;
        break;
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        notes->exact = false;
        break;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:  // if fp32: TF32
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_FFT:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
        if (exact_fp32_) notes->exact = false;
        break;
      default:
        break;
    }
  }
  cudnnBackendBehaviorNote_t behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
  DPIPE_RETURN_IF_ERROR(get(raw, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                            CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &count, behavior));
  for (int64_t i = 0; i < count; ++i) {
    notes->compiles |= behavior[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
  }
  return name;
}

absl::StatusOr<std::unique_ptr<CudnnPlan>> CudnnEngines::Make(
    std::unique_ptr<CudnnDescriptor> config, const std::string& name) const {
  const Phase phase("cuDNN's plans");
  const CudnnApi& api = graph_->api();
  auto descriptor = std::make_unique<CudnnDescriptor>(api, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  descriptor->Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *config);
  if (target_.properties() != nullptr) {
    descriptor->Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target_.properties());
  } else {
    const cudnnHandle_t handle = target_.handle();
    descriptor->Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &handle);
  }
  DPIPE_RETURN_IF_ERROR(descriptor->Finalize());
  std::unique_ptr<CudnnPlan> plan(new CudnnPlan());
  int64_t count = 0;
  DPIPE_RETURN_IF_ERROR(CudnnStatus(
      api,
      api.cudnnBackendGetAttribute(descriptor->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                   CUDNN_TYPE_INT64, 1, &count, &plan->workspace_bytes_),
      "a plan's workspace"));
  if (plan->workspace_bytes_ > graph_->max_workspace_bytes()) {
    return absl::UnimplementedError(absl::StrCat("the engine needs ", plan->workspace_bytes_,
                                                 " bytes of workspace; the limit is ",
                                                 graph_->max_workspace_bytes()));
  }
  plan->graph_ = graph_;
  plan->operation_graph_ = operation_graph_;
  plan->config_ = std::move(config);
  plan->plan_ = std::move(descriptor);
  plan->engine_ = name;
  return plan;
}

absl::StatusOr<std::unique_ptr<CudnnPlan>> CudnnEngines::Next(const std::string& name, bool quick) {
  for (;;) {
    while (configs_.empty()) {
      if (!Fill()) {
        DPIPE_RETURN_IF_ERROR(error_);
        return absl::UnimplementedError(absl::StrCat(
            "cuDNN has no suitable engine; the last one was rejected: ", refusal_.message()));
      }
    }
    std::unique_ptr<CudnnDescriptor> config = std::move(configs_.front());
    configs_.pop_front();
    Notes notes;
    const absl::StatusOr<std::string> its_name = NameOf(*config, &notes);
    if (!its_name.ok()) {
      Keep(its_name.status());
    } else if (!notes.exact) {
      Keep(absl::UnimplementedError(
          absl::StrCat("engine ", *its_name, " is not as deterministic or accurate as required")));
    } else if (!name.empty() && *its_name != name) {
      Keep(absl::UnimplementedError(
          absl::StrCat("engine ", *its_name, " is not the requested engine ", name)));
    } else if (!quick || !notes.compiles) {
      absl::StatusOr<std::unique_ptr<CudnnPlan>> plan = Make(std::move(config), *its_name);
      if (plan.ok()) return plan;
      Keep(plan.status());
    }
  }
}

absl::StatusOr<std::unique_ptr<CudnnPlan>> CudnnEngines::Next(const std::string& name) {
  return Next(name, /*quick=*/false);
}

std::vector<std::unique_ptr<CudnnPlan>> CudnnEngines::NextQuick(int max_plans,
                                                                int64_t max_workspace_bytes) {
  std::vector<std::unique_ptr<CudnnPlan>> plans;
  while (static_cast<int>(plans.size()) < max_plans) {
    absl::StatusOr<std::unique_ptr<CudnnPlan>> plan = Next("", /*quick=*/true);
    if (!plan.ok()) break;
    if ((*plan)->workspace_bytes() <= max_workspace_bytes) plans.push_back(*std::move(plan));
  }
  return plans;
}

absl::Status CudnnPlan::Run(cudnnHandle_t handle, const std::shared_ptr<Device>& device,
                            const std::vector<std::pair<int64_t, void*>>& memory) const {
  const CudnnApi& api = graph_->api();
  const Tensor workspace = Tensor::Empty(device, {(workspace_bytes_ + 3) / 4}, DType::kF32);
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  for (const auto& [id, pointer] : memory) {
    ids.push_back(id);
    pointers.push_back(pointer);
  }
  void* const workspace_data = workspace.raw_data();
  CudnnDescriptor pack(api, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.data(),
           static_cast<int64_t>(pointers.size()))
      .Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &workspace_data);
  DPIPE_RETURN_IF_ERROR(pack.Finalize());
  return CudnnStatus(api, api.cudnnBackendExecute(handle, plan_->get(), pack.get()),
                     "cudnnBackendExecute");
}

}  // namespace dpipe::ops::cuda
