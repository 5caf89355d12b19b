// The work that a FakeDriver records while streams are captured, and its execution.
#ifndef DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CAPTURE_H_
#define DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CAPTURE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/cuda/driver.h"

namespace dpipe::cuda {

// Pieces of work and their dependencies; immutable once captured.
struct FakeGraph {
  struct Node {
    std::function<void()> run;
    std::vector<int> after;  // indices of earlier nodes
  };
  std::vector<Node> nodes;
};

// A launch of a graph. Runs one node at a time, in any order that the graph allows.
class FakeGraphRun {
 public:
  explicit FakeGraphRun(std::shared_ptr<const FakeGraph> graph)
      : graph_(std::move(graph)), done_(graph_->nodes.size(), false), left_(graph_->nodes.size()) {}

  bool finished() const { return left_ == 0; }
  // Returns the nodes that could run next.
  std::vector<int> Ready() const;
  void Run(int node);

 private:
  const std::shared_ptr<const FakeGraph> graph_;
  std::vector<bool> done_;
  size_t left_;
};

// The streams of one capture: its origin, and the streams that have waited for an event of the
// capture. Not thread-safe.
class FakeCapture {
 public:
  explicit FakeCapture(Stream origin)
      : origin_(origin), thread_(std::this_thread::get_id()), tails_({{origin, {}}}) {}

  Stream origin() const { return origin_; }
  bool Has(Stream stream) const { return tails_.count(stream) > 0; }
  bool IsOfThisThread() const { return thread_ == std::this_thread::get_id(); }

  // Makes the capture fail. Keeps the first reason, and returns this one as a status.
  absl::Status Spoil(const std::string& reason);

  void Add(Stream stream, std::function<void()> run);
  // Returns the last nodes on `stream` so far, for other streams to wait for.
  const std::vector<int>& Tail(Stream stream) const { return tails_.at(stream); }
  // Makes the stream wait for these nodes. The stream joins the capture if it has not joined yet.
  void Wait(Stream stream, const std::vector<int>& nodes);

  // FailedPrecondition if the capture is spoilt, or if the origin does not wait for all work on the
  // other streams.
  absl::StatusOr<std::shared_ptr<const FakeGraph>> End();

 private:
  const Stream origin_;
  const std::thread::id thread_;
  std::map<Stream, std::vector<int>> tails_;  // the nodes that a stream's next one waits for
  FakeGraph graph_;
  absl::Status spoilt_;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_TESTING_FAKE_CAPTURE_H_
