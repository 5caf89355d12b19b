// What runs a graph of cuDNN's.
//
// The library's heuristics name engines for a graph, best first; one that is deterministic, of the
// accuracy asked for, and supported becomes the plan: the first, or one that was chosen by time
// (engine_choices.h). A plan can be made where there is no GPU, for one whose properties are known.
#ifndef DPIPE_CORE_OPS_CUDA_CUDNN_PLAN_H_
#define DPIPE_CORE_OPS_CUDA_CUDNN_PLAN_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/ops/cuda/cudnn_graph.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops::cuda {

// A graph with an engine that runs it. On a share of a GPU plans are those of the whole: engines
// refuse to be told of fewer multiprocessors.
class CudnnPlan {
 public:
  // By the first engine that does it. exact_fp32: by no engine that rounds fp32 inputs, or trades
  // accuracy for fewer multiplications. Unimplemented where no engine does what is asked for,
  // naming the last one's reason.
  static absl::StatusOr<std::unique_ptr<CudnnPlan>> Create(const CudnnTarget& target,
                                                           std::unique_ptr<CudnnGraph> graph,
                                                           bool exact_fp32);

  // The engine's number and how it is set, each setting's type and value: "65, 2:1 13:1 18:1".
  const std::string& engine() const { return engine_; }
  // Memory that a run takes besides its tensors, in bytes.
  int64_t workspace_bytes() const { return workspace_bytes_; }

  // Enqueues on the handle's stream; `memory` by tensor id.
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

// The engines for a graph, best first as the library's heuristics have it.
class CudnnEngines {
 public:
  static absl::StatusOr<CudnnEngines> For(const CudnnTarget& target,
                                          std::unique_ptr<CudnnGraph> graph, bool exact_fp32);

  // A plan by the next engine that does what is asked for, of that name unless it is empty.
  // Unimplemented after the last one, with the reason of that one; an error that is no refusal
  // (memory that is full, a GPU that has failed) where there was one and no plan.
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Next(const std::string& name = "");
  // Plans by at most `most` of the engines that follow, which need no compiling and no more
  // workspace than that.
  std::vector<std::unique_ptr<CudnnPlan>> NextQuick(int most, int64_t most_workspace_bytes);

 private:
  CudnnEngines(const CudnnTarget& target, std::shared_ptr<const CudnnGraph> graph,
               std::shared_ptr<const CudnnDescriptor> operation_graph, bool exact_fp32)
      : target_(target),
        graph_(std::move(graph)),
        operation_graph_(std::move(operation_graph)),
        exact_fp32_(exact_fp32) {}

  struct Notes;
  // What the next mode of the heuristics names; false after the last.
  bool Fill();
  absl::StatusOr<std::string> NameOf(const CudnnDescriptor& config, Notes* notes) const;
  absl::StatusOr<std::unique_ptr<CudnnPlan>> Make(std::unique_ptr<CudnnDescriptor> config,
                                                  const std::string& name) const;
  // quick: by none that is compiled when its plan is made.
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

#endif  // DPIPE_CORE_OPS_CUDA_CUDNN_PLAN_H_
