// What the collectives compute, once every rank has come.
#ifndef DPIPE_CORE_EMULATION_COLLECTIVE_SUMS_H_
#define DPIPE_CORE_EMULATION_COLLECTIVE_SUMS_H_

#include "core/emulation/emulated_wires.h"

namespace dpipe {

// Fills what every member gets, as the communicator's contract says: sums in rank order.
void ExchangeTensors(EmulatedCollective* collective);

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_COLLECTIVE_SUMS_H_
