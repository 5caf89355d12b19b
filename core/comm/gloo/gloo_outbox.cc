#include "core/comm/gloo/gloo_outbox.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe {

GlooOutbox::GlooOutbox(GlooMesh* mesh) : mesh_(mesh) {
  thread_ = std::thread([this] { Loop(); });
}

// The deadline is divided into pieces, so that only time in which this process runs counts.
GlooOutbox::~GlooOutbox() {
  constexpr int kPieces = 32;
  std::optional<std::string> left;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    auto empty = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return parcels_.empty(); };
    for (int passed = 0; passed < kPieces && !empty(); ++passed) {
      mutex_.AwaitWithTimeout(absl::Condition(&empty), mesh_->deadline() / kPieces);
    }
    if (!parcels_.empty()) left = parcels_.front()->what;
  }
  if (left.has_value()) {
    mesh_->Abort(absl::DeadlineExceededError(absl::StrCat(
        "rank ", mesh_->rank(), " is shutting down, but ", *left, " was never received")));
  }
  thread_.join();
}

void GlooOutbox::Add(std::unique_ptr<Parcel> parcel) {
  absl::MutexLock lock(&mutex_);
  parcels_.push_back(std::move(parcel));
}

// A parcel stays in the queue until it is taken. That may take long, because a message may be sent
// long before its receiver needs it. After a failure, waits return at once.
void GlooOutbox::Loop() {
  while (true) {
    Parcel* next = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      auto wake = [this]()
                      ABSL_NO_THREAD_SAFETY_ANALYSIS { return stopping_ || !parcels_.empty(); };
      mutex_.Await(absl::Condition(&wake));
      if (parcels_.empty()) return;
      next = parcels_.front().get();
    }
    for (auto& transfer : next->transfers) {
      mesh_->Wait(transfer.get(), next->what, /*forever=*/true).IgnoreError();
    }
    std::unique_ptr<Parcel> taken;
    absl::MutexLock lock(&mutex_);
    taken = std::move(parcels_.front());
    parcels_.pop_front();
  }
}

}  // namespace dpipe
