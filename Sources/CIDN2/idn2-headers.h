// SPDX-License-Identifier: Apache-2.0
#include <idn2.h>
