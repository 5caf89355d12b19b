// Messages that a rank has sent and that have not been taken yet; keeps their bytes alive until
// then.
#ifndef DPIPE_CORE_COMM_GLOO_GLOO_OUTBOX_H_
#define DPIPE_CORE_COMM_GLOO_GLOO_OUTBOX_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/comm/gloo/gloo_mesh.h"
#include "core/tensor/tensor.h"

namespace dpipe {

class GlooOutbox {
 public:
  struct Parcel {
    std::string what;
    std::vector<Tensor> tensors;
    std::string header;
    // Of the two above; destroyed before them.
    std::vector<std::unique_ptr<GlooTransfer>> transfers;
  };

  // `mesh` outlives the outbox.
  explicit GlooOutbox(GlooMesh* mesh);
  // Blocks until everything has been taken or the job has failed. Fails the job if the deadline
  // passes.
  ~GlooOutbox();
  GlooOutbox(const GlooOutbox&) = delete;
  GlooOutbox& operator=(const GlooOutbox&) = delete;

  void Add(std::unique_ptr<Parcel> parcel);

 private:
  void Loop();

  GlooMesh* const mesh_;
  absl::Mutex mutex_;
  std::deque<std::unique_ptr<Parcel>> parcels_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_GLOO_GLOO_OUTBOX_H_
