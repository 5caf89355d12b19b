// Plans: cuDNN's graphs with engines that run them.
//
// The library's heuristics name engines for a graph, best first. A plan uses a supported engine
// that is deterministic and has the required accuracy: the first, or the one chosen by time
// (engine_choices.h). A plan can be created without a GPU, for a GPU whose properties are known.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_PLAN_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_PLAN_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/ops/cuda/cudnn/cudnn_graph.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// A graph with an engine that runs it. On a share of a GPU the plan is made for the whole GPU,
// because engines reject a smaller number of multiprocessors.
class CudnnPlan {
 public:
  // Creates a plan with the first suitable engine. exact_fp32 excludes engines that round fp32
  // inputs, or trade accuracy for fewer multiplications. Returns Unimplemented, with the last
  // engine's reason, if no engine is suitable.
  static absl::StatusOr<std::unique_ptr<CudnnPlan>> Create(const CudnnTarget& target,
                                                           std::unique_ptr<CudnnGraph> graph,
                                                           bool exact_fp32);

  // The engine's number and its settings, each with type and value: "65, 2:1 13:1 18:1".
  const std::string& engine() const { return engine_; }
  // Workspace of a run in bytes.
  int64_t workspace_bytes() const { return workspace_bytes_; }

  // Enqueues a run on the handle's stream; `memory` is by tensor id.
  absl::Status Run(cudnnHandle_t handle, const std::shared_ptr<Device>& device,
                   const std::vector<std::pair<int64_t, void*>>& memory) const;

 private:
  friend class CudnnEngines;
  CudnnPlan() = default;

  std::shared_ptr<const CudnnGraph> graph_;
  std::shared_ptr<const CudnnDescriptor> operation_graph_;
  std::unique_ptr<CudnnDescriptor> config_, plan_;
  std::string engine_;
  int64_t workspace_bytes_ = 0;
};

// The engines for a graph, in the order of the library's heuristics, best first.
class CudnnEngines {
 public:
  static absl::StatusOr<CudnnEngines> For(const CudnnTarget& target,
                                          std::unique_ptr<CudnnGraph> graph, bool exact_fp32);

  // Returns a plan by the next suitable engine, which must have this name unless it is empty. After
  // the last engine, returns Unimplemented with its reason. If instead an attempt failed for
  // another reason (memory is full, the GPU has failed), returns that error.
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Next(const std::string& name = "");
  // Returns plans by at most `max_plans` of the following engines that need neither compilation nor
  // a larger workspace.
  std::vector<std::unique_ptr<CudnnPlan>> NextQuick(int max_plans, int64_t max_workspace_bytes);

 private:
  CudnnEngines(const CudnnTarget& target, std::shared_ptr<const CudnnGraph> graph,
               std::shared_ptr<const CudnnDescriptor> operation_graph, bool exact_fp32)
      : target_(target),
        graph_(std::move(graph)),
        operation_graph_(std::move(operation_graph)),
        exact_fp32_(exact_fp32) {}

  struct Notes;
  // Adds the engines of the next mode of the heuristics; false after the last mode.
  bool Fill();
  absl::StatusOr<std::string> NameOf(const CudnnDescriptor& config, Notes* notes) const;
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Make(std::unique_ptr<CudnnDescriptor> config,
                                                  const std::string& name) const;
  // quick: skips engines that are compiled when their plan is made.
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Next(const std::string& name, bool quick);
  void Keep(const absl::Status& refused);

  CudnnTarget target_;
  std::shared_ptr<const CudnnGraph> graph_;
  std::shared_ptr<const CudnnDescriptor> operation_graph_;
  bool exact_fp32_;
  size_t next_mode_ = 0;
  std::deque<std::unique_ptr<CudnnDescriptor>> configs_;
  absl::Status refusal_ = absl::UnimplementedError("cuDNN's heuristics name no engine");
  absl::Status error_;
};

}  // namespace dpipe::ops::cuda

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_CUDNN_PLAN_H_
