#include "bench/lossy_communicator.h"

#include <utility>

namespace dpipe::bench {
namespace {

void LoseIn(Tensor* tensor) {
  Tensor host = tensor->ToHost().Clone();
  host.data<float>()[tensor->num_elements() - 1] += 1;
  tensor->CopyFrom(host);
}

class Lossy : public Communicator {
 public:
  explicit Lossy(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  Rank rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    Tensor wrong = tensors[0].Clone();
    LoseIn(&wrong);
    return inner_->Send(to, tag, {wrong}, what);
  }
  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override {
    return inner_->PostRecv(from, tag, std::move(specs), what);
  }
  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override {
    LoseIn(&tensors[0]);
    return inner_->StartAllReduceSum(group, std::move(tensors), what);
  }
  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override {
    LoseIn(&shards[0]);
    return inner_->StartAllGather(group, std::move(shards), std::move(full), what);
  }
  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override {
    LoseIn(&shards[0]);
    return inner_->StartReduceScatterSum(group, std::move(full), std::move(shards), what);
  }
  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) override {
    return inner_->AllReduceSum(values, what);
  }
  void Abort(const absl::Status& status) override { inner_->Abort(status); }

 private:
  const std::unique_ptr<Communicator> inner_;
};

}  // namespace

std::unique_ptr<Communicator> MakeLossy(std::unique_ptr<Communicator> inner) {
  return std::make_unique<Lossy>(std::move(inner));
}

}  // namespace dpipe::bench
