#include "core/comm/nccl/testing/send_through_gpu.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/time.h"

namespace dpipe {
namespace {

class ThroughGpu : public Communicator {
 public:
  ThroughGpu(std::unique_ptr<Communicator> inner, std::shared_ptr<Device> gpu,
             std::shared_ptr<Device> cpu)
      : inner_(std::move(inner)), gpu_(std::move(gpu)), cpu_(std::move(cpu)) {}

  Rank rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  absl::Status Send(Rank to, int64_t tag, std::vector<Tensor> tensors,
                    const std::string& what) override {
    return inner_->Send(to, tag, There(tensors), what);
  }
  absl::StatusOr<std::unique_ptr<PendingRecv>> PostRecv(Rank from, int64_t tag,
                                                        std::vector<TensorSpec> specs,
                                                        const std::string& what) override {
    DPIPE_ASSIGN_OR_RETURN(auto inner, inner_->PostRecv(from, tag, std::move(specs), what));
    return std::unique_ptr<PendingRecv>(std::make_unique<Recv>(std::move(inner), gpu_, cpu_));
  }
  absl::Status ExpectMessages(absl::Span<const Rank> to, absl::Span<const Rank> from) override {
    return inner_->ExpectMessages(to, from);
  }
  void BeginMessages() override { inner_->BeginMessages(); }
  absl::Status EndMessages() override { return inner_->EndMessages(); }
  bool occupies_device() const override { return inner_->occupies_device(); }
  StartedCollective StartAllReduceSum(absl::Span<const Rank> group, std::vector<Tensor> tensors,
                                      const std::string& what) override {
    const std::vector<Tensor> there = There(tensors);
    return Collect(inner_->StartAllReduceSum(group, there, what), there, tensors);
  }
  StartedCollective StartAllGather(absl::Span<const Rank> group, std::vector<Tensor> shards,
                                   std::vector<Tensor> full, const std::string& what) override {
    const std::vector<Tensor> there = There(full);
    return Collect(inner_->StartAllGather(group, There(shards), there, what), there, full);
  }
  StartedCollective StartReduceScatterSum(absl::Span<const Rank> group, std::vector<Tensor> full,
                                          std::vector<Tensor> shards,
                                          const std::string& what) override {
    const std::vector<Tensor> there = There(shards);
    return Collect(inner_->StartReduceScatterSum(group, There(full), there, what), there, shards);
  }
  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what) override {
    return inner_->AllReduceSum(values, what);
  }
  void Abort(const absl::Status& status) override { inner_->Abort(status); }

 private:
  class Recv : public PendingRecv {
   public:
    Recv(std::unique_ptr<PendingRecv> inner, std::shared_ptr<Device> gpu,
         std::shared_ptr<Device> cpu)
        : inner_(std::move(inner)), gpu_(std::move(gpu)), cpu_(std::move(cpu)) {}
    absl::StatusOr<std::vector<Tensor>> Wait() override {
      DPIPE_ASSIGN_OR_RETURN(std::vector<Tensor> tensors, inner_->Wait());
      for (Tensor& t : tensors) t = t.CopyTo(cpu_);
      DPIPE_RETURN_IF_ERROR(gpu_->Synchronize());
      return tensors;
    }

   private:
    const std::unique_ptr<PendingRecv> inner_;
    const std::shared_ptr<Device> gpu_, cpu_;
  };

  class Collective : public PendingCollective {
   public:
    Collective(std::unique_ptr<PendingCollective> inner, std::vector<Tensor> there,
               std::vector<Tensor> here)
        : inner_(std::move(inner)), there_(std::move(there)), here_(std::move(here)) {}
    absl::Status Wait() override {
      DPIPE_RETURN_IF_ERROR(inner_->Wait());
      for (size_t i = 0; i < here_.size(); ++i) here_[i].CopyFrom(there_[i]);
      end_ns_ = MonotonicNow();
      return there_.empty() ? absl::OkStatus() : there_[0].device()->Synchronize();
    }
    Nanos end_ns() const override { return end_ns_; }

   private:
    const std::unique_ptr<PendingCollective> inner_;
    const std::vector<Tensor> there_;
    std::vector<Tensor> here_;
    Nanos end_ns_ = 0;
  };

  std::vector<Tensor> There(const std::vector<Tensor>& tensors) const {
    std::vector<Tensor> there;
    for (const Tensor& t : tensors) there.push_back(t.CopyTo(gpu_));
    return there;
  }
  static StartedCollective Collect(StartedCollective inner, std::vector<Tensor> there,
                                   std::vector<Tensor> here) {
    if (!inner.ok()) return inner.status();
    return std::make_unique<Collective>(*std::move(inner), std::move(there), std::move(here));
  }

  const std::unique_ptr<Communicator> inner_;
  const std::shared_ptr<Device> gpu_, cpu_;
};

}  // namespace

std::unique_ptr<Communicator> SendThroughGpu(std::unique_ptr<Communicator> inner,
                                             std::shared_ptr<Device> gpu,
                                             std::shared_ptr<Device> cpu) {
  return std::make_unique<ThroughGpu>(std::move(inner), std::move(gpu), std::move(cpu));
}

}  // namespace dpipe
