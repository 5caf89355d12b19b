// Plans as text.
#ifndef DPIPE_CORE_REPORT_PLAN_TEXT_H_
#define DPIPE_CORE_REPORT_PLAN_TEXT_H_

#include <string>

#include "core/proto/plan.pb.h"

namespace dpipe::report {

// Returns "layers 0-11 on device 0; layers 12-29 on device 1+2".
std::string StagesText(const Plan& plan);

// Returns "2 stages (layers 0-11 on device 0; layers 12-29 on device 1), 4 micro-batches of 8,
// predicted step 212.00 ms, bubble ratio 3.1 %".
std::string PlanText(const Plan& plan);

}  // namespace dpipe::report

#endif  // DPIPE_CORE_REPORT_PLAN_TEXT_H_
