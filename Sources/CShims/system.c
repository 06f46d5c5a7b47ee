#include "pinproxy_system.h"
